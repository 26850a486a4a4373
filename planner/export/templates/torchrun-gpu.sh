#!/usr/bin/env bash
# Starts the ranks of one machine with one torchrun agent per GPU (PyTorch 1.13 or later). On every machine:
#   @name@ MACHINE @arguments@
set -euo pipefail
world=@world@ master=@master@ port=@port@ required=@required@ # arguments
limit=${DTFM_START_TIMEOUT-300} # seconds; torchrun would wait for 10 minutes without a message
agents=( # rank, machine, GPU
@agents@
)

machine=${1-}
[ $# -ge "$required" ] || { echo "usage: @name@ MACHINE @arguments@" >&2; exit 2; }
shift
set -- @program@ "$@"
own=()
for agent in "${agents[@]}"; do
  read -r rank address gpu <<<"$agent"
  [ "$address" != "$machine" ] || own+=("$rank $gpu")
done
[ ${#own[@]} -gt 0 ] || { echo "@name@: no machine of the plan has the address '$machine' (see rank_table.json)" >&2; exit 2; }
@checks@
pids=()
for agent in "${own[@]}"; do
  read -r rank gpu <<<"$agent"
  # Static rendezvous is required: other backends number the agents arbitrarily.
  CUDA_VISIBLE_DEVICES=$gpu torchrun --nnodes "$world" --nproc_per_node 1 --node_rank "$rank" \
    --master_addr "$master" --master_port "$port" --rdzv_conf "timeout=$limit" "$@" &
  pids+=($!)
done
trap 'kill "${pids[@]}" 2>/dev/null || true; wait' EXIT # if one rank fails, the others would wait forever
for _ in "${pids[@]}"; do wait -n; done
