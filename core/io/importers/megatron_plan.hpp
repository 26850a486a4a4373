// Reads the plan that a Megatron-LM launch implies: parallel sizes, layers per stage, and the device of each
// rank.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "core/io/readers/device_resolver.hpp"
#include "core/io/text/input_errors.hpp"
#include "core/io/text/named_file.hpp"

namespace dtfm::io {

/// The plan that the Megatron-LM flags in `flags` define on the devices of the rank file `ranks`
/// (read_ranks). With tensor, pipeline and data sizes T, P and D, device t of stage p of pipeline d has rank
/// t + T (d + D p), or t + T (p + P d) with --use-tp-pp-dp-mapping (Megatron-LM,
/// megatron/training/initialize.py, megatron/core/parallel_state.py). Layers are split by
/// --pipeline-model-parallel-layout; or by the layer counts of the first and the last stage, with equal
/// stages between; or evenly with embedding and loss counted as layers; or evenly. Virtual stages become
/// chunks of the interleaved schedule. The global batch is split equally.
///
/// Adds to `errors`, at file:line:column: the errors of read_ranks and MegatronFlags, sizes that do not
/// divide what they must, mutually exclusive flags, context and expert parallelism, and disagreement with the
/// job in number of layers, width, heads, sequence, batches, tensor size or chunks. If there are errors, the
/// returned plan is not valid. Adds notes for the user to `notes`.
Plan read_megatron_plan(const NamedFile& flags, const NamedFile& ranks, const Job& job,
                        DeviceResolver& resolver, InputErrors& errors, std::vector<std::string>& notes);

}  // namespace dtfm::io
