// Derives the number of layers of each pipeline stage from Megatron-LM's flags.
#pragma once

#include <string>
#include <vector>

#include "core/plan/job.hpp"
#include "core/io/importers/megatron_flags.hpp"
#include "core/io/text/input_errors.hpp"

namespace dtfm::io {

/// Layers of the devices of a pipeline. Each device holds `chunks` chunks, into which its layers are split
/// evenly.
struct MegatronStages {
  std::vector<int> layers;  // by pipeline rank
  int chunks = 1;
};

/// Splits the layers of the job over `stages` pipeline ranks. Adds to `errors` mutually exclusive flags,
/// numbers that do not divide, and layouts with another number of layers or stages or with chunks that plans
/// cannot express, because plans split the layers of a device evenly. If there are errors, the result is not
/// valid.
MegatronStages megatron_stages(const MegatronFlags& flags, const std::string& file, int stages,
                               const Job& job, InputErrors& errors);

}  // namespace dtfm::io
