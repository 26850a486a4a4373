#!/usr/bin/env bash
# Starts the ranks of one machine with one torchrun agent per GPU (PyTorch 1.13 or later). On every machine:
#   torchrun.sh MACHINE PROGRAM ARGUMENT...
set -euo pipefail
world=@world@ master=@master@ port=@port@
agents=( # rank, machine, GPU
@agents@
)

machine=${1-}
[ $# -gt 1 ] || { echo "usage: torchrun.sh MACHINE PROGRAM ARGUMENT..." >&2; exit 2; }
shift
pids=()
for agent in "${agents[@]}"; do
  read -r rank address gpu <<<"$agent"
  [ "$address" = "$machine" ] || continue
  # Static rendezvous is required: other backends number the agents arbitrarily.
  CUDA_VISIBLE_DEVICES=$gpu torchrun --nnodes "$world" --nproc_per_node 1 --node_rank "$rank" \
    --master_addr "$master" --master_port "$port" "$@" &
  pids+=($!)
done
[ ${#pids[@]} -gt 0 ] || { echo "torchrun.sh: the plan has no machine '$machine'" >&2; exit 2; }
trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT # if one rank fails, the others would wait forever
for _ in "${pids[@]}"; do wait -n; done
