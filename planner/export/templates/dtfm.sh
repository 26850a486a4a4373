#!/usr/bin/env bash
# Starts the ranks of one machine with DT-FM's runner (DS3Lab/DT-FM at cda948f). On every machine:
#   dtfm.sh MACHINE ARGUMENT...    with arguments of dist_runner.py for model, width and data
set -euo pipefail
ranks=( # rank, machine, GPU, layers of its stage
@ranks@
)

machine=${1-}
[ -n "$machine" ] || { echo "usage: dtfm.sh MACHINE ARGUMENT..." >&2; exit 2; }
shift
command -v python >/dev/null || { echo "dtfm.sh: python is not on the PATH: activate the environment of DT-FM" >&2; exit 2; }
[ -f dist_runner.py ] || { echo "dtfm.sh: there is no dist_runner.py here: start this in the folder of DT-FM (DS3Lab/DT-FM on GitHub)" >&2; exit 2; }
pids=()
for line in "${ranks[@]}"; do
  read -r rank address gpu layers <<<"$line"
  [ "$address" = "$machine" ] || continue
  python dist_runner.py --dist-url tcp://@master@:@port@ --world-size @world@ \
    --pipeline-group-size @stages@ --data-group-size @replicas@ --rank "$rank" --cuda-id "$gpu" --num-layers "$layers" \
    --batch-size @batch@ --micro-batch-size @micro_batch@ --gradient-accumulate-step @rounds@ --pp-mode gpipe \
    --dp-mode @dp_mode@@precision@ "$@" &
  pids+=($!)
done
[ ${#pids[@]} -gt 0 ] || { echo "dtfm.sh: no machine of the plan has the address '$machine' (see rank_table.json)" >&2; exit 2; }
trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT # if one rank fails, the others would wait forever
for _ in "${pids[@]}"; do wait -n; done
