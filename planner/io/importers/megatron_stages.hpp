// How many layers each pipeline stage has by Megatron-LM's flags.
#pragma once

#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/io/text/input_errors.hpp"
#include "planner/io/importers/megatron_flags.hpp"

namespace dtfm::io {

/// Layers of the devices of a pipeline, which hold as many equal chunks each.
struct MegatronStages {
  std::vector<int> layers;  // by pipeline rank
  int chunks = 1;
};

/// For `stages` pipeline ranks and the layers of the job. Adds to `faults` flags that exclude each other,
/// numbers that do not divide, a layout of another number of layers or stages, or with chunks that plans do
/// not know: they cut the layers of a device evenly. Nothing of the result counts then.
MegatronStages megatron_stages(const MegatronFlags& flags, const std::string& file, int stages,
                               const Job& job, InputErrors& errors);

}  // namespace dtfm::io
