#!/usr/bin/env bash
# Starts the ranks of one machine with one torchrun agent (PyTorch 1.13 or later). On every machine:
#   torchrun.sh MACHINE PROGRAM ARGUMENT...
set -euo pipefail
nodes=@nodes@ master=@master@ port=@port@
limit=${DTFM_START_TIMEOUT-300} # seconds; torchrun would wait for 10 minutes without a message
agents=( # agent rank, machine, number of ranks, GPUs in rank order
@agents@
)

machine=${1-}
[ $# -gt 1 ] || { echo "usage: torchrun.sh MACHINE PROGRAM ARGUMENT..." >&2; exit 2; }
shift
for agent in "${agents[@]}"; do
  read -r node address ranks gpus <<<"$agent"
  [ "$address" != "$machine" ] || break
done
[ "$address" = "$machine" ] || { echo "torchrun.sh: no machine of the plan has the address '$machine' (see rank_table.json)" >&2; exit 2; }
@checks@
# Static rendezvous is required: other backends number the agents arbitrarily.
CUDA_VISIBLE_DEVICES=$gpus exec torchrun --nnodes "$nodes" --nproc_per_node "$ranks" --node_rank "$node" \
  --master_addr "$master" --master_port "$port" --rdzv_conf "timeout=$limit" "$@"
