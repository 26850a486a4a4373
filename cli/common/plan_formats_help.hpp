// What --help says of the files that plans are read from.
#pragma once

namespace dtfm::cli {

inline constexpr const char* plan_formats_help =
    R"(Formats of a plan, told apart by what is in the file:
  JSON as dtfm-plan -o writes it; `pipelines` is enough where --job says the job.
  CSV: a line a device, numbers from 0, last_layer the last layer itself; devices of one stage are tensor parallel:
    device,pipeline,stage,first_layer,last_layer[,micro_batches]
    oregon/0,0,0,0,11
    ohio/1:2,0,1,12,23
  Megatron-LM: the flags of a launch script, in a file, with the device of each rank in another one (--ranks):
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 3 --num-layers 7
    --pipeline-model-parallel-layout "Ettt|tt|ttL" --micro-batch-size 1 --global-batch-size 64
    A line of --ranks is `rank 0=oregon/0` (Open MPI), `oregon/0` (rank by rank) or `oregon/0 slots=8` (a hostfile);
    a host in place of a device is its next GPU.
The last two are for the job of --job, or for the one that is built in.)";

}  // namespace dtfm::cli
