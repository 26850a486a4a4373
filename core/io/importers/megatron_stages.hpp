// Derives the number of layers of each virtual pipeline stage from Megatron-LM's flags.
#pragma once

#include <string>
#include <vector>

#include "core/plan/job.hpp"
#include "core/io/importers/megatron_flags.hpp"
#include "core/io/text/input_errors.hpp"

namespace dtfm::io {

/// Layers of the devices of a pipeline, each of which holds `chunks` chunks.
struct MegatronStages {
  std::vector<std::vector<int>> layers;  // [pipeline rank][chunk]: their number
  int chunks = 1;
};

/// Splits the layers of the job over `stages` pipeline ranks. Adds to `errors` mutually exclusive flags,
/// numbers that do not divide, and layouts with another number of layers or stages. If there are errors, or
/// the job has another number of chunks, `layers` is not valid.
MegatronStages megatron_stages(const MegatronFlags& flags, const std::string& file, int stages,
                               const Job& job, InputErrors& errors);

}  // namespace dtfm::io
