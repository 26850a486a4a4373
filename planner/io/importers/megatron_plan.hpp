// Plans as Megatron-LM makes them: parallel sizes, a layout of the layers, and which device has which rank.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"
#include "planner/io/readers/device_resolver.hpp"
#include "planner/io/text/input_errors.hpp"
#include "planner/io/text/named_file.hpp"

namespace dtfm::io {

/// The plan that Megatron-LM's flags in `flags` make of the ranks in `ranks` (read_ranks). With T, P, D the
/// tensor, pipeline and data sizes, rank t + T (d + D p) is device t of stage p of pipeline d; with
/// --use-tp-pp-dp-mapping it is rank t + T (p + P d) (Megatron-LM, megatron/training/initialize.py,
/// megatron/core/parallel_state.py). Layers by --pipeline-model-parallel-layout, by the first and the last
/// stage's number with equal ones between, with embedding and loss counted as layers, or equal. Virtual
/// stages are chunks of schedule interleaved. The global batch is split equally.
///
/// Adds to `faults`, at file:line:column: what read_ranks and MegatronFlags add, sizes that do not divide
/// what they must, flags that exclude each other, context and expert parallelism, and what is not as in the
/// job: number of layers, width, heads, sequence, batches, tensor size, chunks. With a fault, what comes back
/// is no plan. Adds to `notes` what a reader should know.
Plan read_megatron_plan(const NamedFile& flags, const NamedFile& ranks, const Job& job, DeviceResolver& resolver,
                        InputErrors& errors, std::vector<std::string>& notes);

}  // namespace dtfm::io
