#!/usr/bin/env bash
# Starts all ranks in an allocation of Slurm (22.05 or later) that has the machines of slurm-hosts:
#   slurm.sh PROGRAM ARGUMENT...
# The environment variable SRUN_ARGS holds further options of srun.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: slurm.sh PROGRAM ARGUMENT..." >&2; exit 2; }
command -v srun >/dev/null || { echo "slurm.sh: srun is not on the PATH: run this where Slurm is installed, or export --to torchrun" >&2; exit 2; }
[ -n "${SLURM_JOB_ID-}" ] || echo "slurm.sh: this is not in an allocation (salloc, sbatch): srun requests one, and waits for it" >&2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SLURM_HOSTFILE=$here/slurm-hosts
# Task i runs on the machine in line i of the file. All GPUs stay visible to the tasks of a machine: rank-env.sh chooses one.
# There is no -N, because it excludes an arbitrary distribution.
# shellcheck disable=SC2086 # SRUN_ARGS is a list of words
exec srun -n @world@ -m arbitrary --gpu-bind=none ${SRUN_ARGS-} "$here/rank-env.sh" "$@"
