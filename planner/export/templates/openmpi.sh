#!/usr/bin/env bash
# Starts all ranks with Open MPI (4 or later), each where rankfile says:
#   openmpi.sh PROGRAM ARGUMENT...
# The environment variable MPIRUN_ARGS holds further options of mpirun.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: openmpi.sh PROGRAM ARGUMENT..." >&2; exit 2; }
command -v mpirun >/dev/null || { echo "openmpi.sh: mpirun is not on the PATH: install Open MPI (openmpi-bin), or export --to torchrun" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ranks=(-rf "$here/rankfile")
major=$(mpirun --version | sed -n '1s/[^0-9]*\([0-9]*\).*/\1/p')
[ "${major:-4}" -lt 5 ] || ranks=(--map-by "rankfile:file=$here/rankfile")
# shellcheck disable=SC2086 # MPIRUN_ARGS is a list of words
exec mpirun --hostfile "$here/hostfile" "${ranks[@]}" -np @world@ ${MPIRUN_ARGS-} "$here/rank-env.sh" "$@"
