#!/usr/bin/env bash
# Starts the servers of one machine with Petals (2.3). On every machine, with the address that run_dht prints (README.md):
#   petals.sh MACHINE MODEL --initial_peers /ip4/10.0.0.1/tcp/31337/p2p/QmHash [ARGUMENT...]
set -euo pipefail
servers=( # name, machine, GPUs, blocks
@servers@
)

machine=${1-} model=${2-}
fail() {
  echo "petals.sh: $1" >&2
  exit 2
}
[ -n "$model" ] || { echo "usage: petals.sh MACHINE MODEL --initial_peers ADDRESS [ARGUMENT...]" >&2; exit 2; }
shift 2
[[ " $*" == *" --initial_peers"[\ =]* ]] ||
  fail "without --initial_peers, servers join the public swarm of Petals: start run_dht as README.md says, and pass the address that it prints"
python -c 'import importlib.util, sys; sys.exit(importlib.util.find_spec("petals") is None)' ||
  fail "python does not find the package petals: activate the environment with Petals"
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
[ ${#pids[@]} -gt 0 ] || fail "no machine of the plan has the address '$machine' (see rank_table.json)"
trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT # if one server fails, its pipeline cannot work
for _ in "${pids[@]}"; do wait -n; done
