#!/usr/bin/env bash
# Starts all ranks in an allocation of Slurm (22.05 or later) that has the machines of slurm-hosts:
#   slurm.sh PROGRAM ARGUMENT...
# SRUN_ARGS, an environment variable, holds more options of srun.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: slurm.sh PROGRAM ARGUMENT..." >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export SLURM_HOSTFILE=$here/slurm-hosts
# Task i runs on line i of the file. GPUs stay visible to all tasks of a machine: rank-env.sh chooses. No -N: it
# excludes an arbitrary distribution.
# shellcheck disable=SC2086 # SRUN_ARGS is a list of words
exec srun -n @world@ -m arbitrary --gpu-bind=none ${SRUN_ARGS-} "$here/rank-env.sh" "$@"
