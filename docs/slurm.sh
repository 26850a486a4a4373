#!/bin/bash
# Plans on several machines of a Slurm cluster: sbatch docs/slurm.sh lab.yaml small.yaml plan.json
#
# Every machine must see the same files and the same build of dtfm, for example on a shared file system. One rank per
# machine uses all its cores as threads. Slurm sends SIGTERM two minutes before the time limit; the best plan so far is
# then written.
#SBATCH --job-name=dtfm-plan
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=01:00:00
#SBATCH --signal=TERM@120
set -euo pipefail

topology=$1 job=$2 plan=$3

# srun does not pass on --cpus-per-task by itself. With --kill-on-bad-exit, a rank that dies ends the others with SIGTERM,
# and they have the KillWait of slurm.conf, by default 30 s, to write the plan. Without a Slurm that was built with PMIx,
# Open MPI's own launcher does the same: mpirun --map-by ppr:1:node --bind-to none --mca odls_base_sigkill_timeout 5 …
exec srun --mpi=pmix --cpus-per-task="$SLURM_CPUS_PER_TASK" --kill-on-bad-exit=1 \
  dtfm-plan "$topology" --job "$job" --threads "$SLURM_CPUS_PER_TASK" -o "$plan"
