#!/usr/bin/env bash
# Runs a program with the environment variables that trainers read; srun or mpirun starts this script once per rank:
#   rank-env.sh PROGRAM ARGUMENT...
set -euo pipefail
gpus=(@gpus@) # CUDA index, by rank
machines=(@addresses@) # by rank

rank=${OMPI_COMM_WORLD_RANK-${SLURM_PROCID-}} # mpirun's takes precedence: it may run inside a Slurm allocation
[ -n "$rank" ] || { echo "rank-env.sh: no rank is set; start this with slurm.sh or openmpi.sh" >&2; exit 2; }
[ -n "${gpus[rank]-}" ] || { echo "rank-env.sh: rank $rank is out of range: the plan has ${#gpus[@]} ranks" >&2; exit 2; }
tasks=$(printf "%s\n" "${machines[@]}" | grep -cxF -- "${SLURMD_NODENAME-}" || true)
if [ -n "${SLURM_GPUS_ON_NODE-}" ] && [ "$tasks" -gt "$SLURM_GPUS_ON_NODE" ]; then
  echo "slurm: host '$SLURMD_NODENAME' needs $tasks tasks but the allocation has $SLURM_GPUS_ON_NODE GPUs" >&2
  exit 2
fi
export RANK=$rank WORLD_SIZE=${#gpus[@]} LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
export MASTER_ADDR=@master@ MASTER_PORT=@port@ CUDA_VISIBLE_DEVICES=${gpus[rank]}
exec "$@"
