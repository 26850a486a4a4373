#!/usr/bin/env bash
# Runs a program with what trainers read of their rank; srun or mpirun starts it, once a rank:
#   rank-env.sh PROGRAM ARGUMENT...
set -euo pipefail
gpus=(@gpus@) # CUDA index, by rank
machines=(@addresses@) # by rank

rank=${OMPI_COMM_WORLD_RANK-${SLURM_PROCID-}} # mpirun's first: it may run inside an allocation of Slurm
[ -n "$rank" ] || { echo "rank-env.sh: no rank is known; slurm.sh or openmpi.sh starts this" >&2; exit 2; }
[ -n "${gpus[rank]-}" ] || { echo "rank-env.sh: rank $rank, but the plan has ${#gpus[@]} ranks" >&2; exit 2; }
tasks=$(printf "%s\n" "${machines[@]}" | grep -cxF -- "${SLURMD_NODENAME-}" || true)
if [ -n "${SLURM_GPUS_ON_NODE-}" ] && [ "$tasks" -gt "$SLURM_GPUS_ON_NODE" ]; then
  echo "slurm: host '$SLURMD_NODENAME' needs $tasks tasks but the allocation has $SLURM_GPUS_ON_NODE GPUs" >&2
  exit 2
fi
export RANK=$rank WORLD_SIZE=${#gpus[@]} LOCAL_RANK=0 LOCAL_WORLD_SIZE=1
export MASTER_ADDR=@master@ MASTER_PORT=@port@ CUDA_VISIBLE_DEVICES=${gpus[rank]}
exec "$@"
