#!/usr/bin/env bash
# Starts the servers of one machine with Petals (2.3). On every machine, once the first server's address is known:
#   petals.sh MACHINE MODEL ARGUMENT...    such as --initial_peers /ip4/10.0.0.1/tcp/31337/p2p/QmHash
set -euo pipefail
servers=( # name, machine, GPUs, blocks
@servers@
)

machine=${1-} model=${2-}
[ -n "$model" ] || { echo "usage: petals.sh MACHINE MODEL ARGUMENT..." >&2; exit 2; }
shift 2
pids=()
for server in "${servers[@]}"; do
  read -r name address gpus blocks <<<"$server"
  [ "$address" = "$machine" ] || continue
  devices=()
  for ((i = 0; i < $(tr -cd , <<<"$gpus" | wc -c) + 1; ++i)); do devices+=("cuda:$i"); done
  [ ${#devices[@]} -eq 1 ] && devices=() || devices=(--tensor_parallel_devices "${devices[@]}")
  CUDA_VISIBLE_DEVICES=$gpus python -m petals.cli.run_server "$model" --block_indices "$blocks" \
    --identity_path "$name.id" "${devices[@]}" "$@" &
  pids+=($!)
done
[ ${#pids[@]} -gt 0 ] || { echo "petals.sh: no machine of the plan has the address '$machine' (see rank_table.json)" >&2; exit 2; }
trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT # if one server fails, its pipeline cannot work
for _ in "${pids[@]}"; do wait -n; done
