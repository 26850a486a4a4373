// The part of --help on the formats of plans.
#pragma once

namespace dtfm::cli {

inline constexpr const char* plan_formats_help =
    R"(Formats of plans, recognized by their contents:
  JSON, written by dtfm-plan -o; the key `pipelines` is enough if --job is given
  CSV, one line per device, numbers from 0, last_layer inclusive; several devices of a stage are
  tensor-parallel:
    device,pipeline,stage,first_layer,last_layer[,micro_batches]
    oregon/0,0,0,0,11
    ohio/1:2,0,1,12,23
  Megatron-LM, the flags of a launch script, with the device of each rank in another file (--ranks):
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 3 --num-layers 7
    --pipeline-model-parallel-layout "Ettt|tt|ttL" --micro-batch-size 1 --global-batch-size 64
    A line of --ranks is `rank 0=oregon/0` (Open MPI), `oregon/0` (rank by rank) or
    `oregon/0 slots=8` (a hostfile). A host name means the next GPU of that host.
CSV and Megatron-LM plans are for the job of --job [GPT-3 XL].)";

}  // namespace dtfm::cli
