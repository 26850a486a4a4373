// In which order a device computes the micro-batches of its stage. One file each; schedule.cpp has the table.
#pragma once

#include <string_view>
#include <vector>

namespace dtfm {

struct Operation {
  enum class Kind : unsigned char { forward, backward };
  Kind kind = Kind::forward;
  int chunk = 0;  // which of the device's stages: 0 but for interleaved
  int micro_batch = 0;

  friend bool operator==(const Operation&, const Operation&) = default;
};

/// Where a device stands in its pipeline. Interleaved: device d of p has the stages d, d + p, …, d + (chunks
/// − 1) · p.
struct PipelinePosition {
  int devices = 1, device = 0;
  int chunks = 1;
  int micro_batches = 1;
};

/// Every forward and every backward of every micro-batch and chunk once. All micro-batches forward, then all
/// backward in the same order (Huang et al., GPipe, arXiv 1811.06965).
std::vector<Operation> gpipe_order(const PipelinePosition& position);
/// min(p − d − 1, m) forwards, then one forward and one backward in turn, then the backwards that are left
/// (Narayanan et al., arXiv 1806.03377 and 2104.04473).
std::vector<Operation> one_f_one_b_order(const PipelinePosition& position);
/// The same over chunks (arXiv 2104.04473, 2.2). Expects micro-batches to be a multiple of the devices.
std::vector<Operation> interleaved_order(const PipelinePosition& position);

/// 1f1b as Megatron-LM runs it (megatron/core/pipeline_parallel/p2p_communication.py): a device waits until
/// what it sends has arrived before it computes on. No job has it; schemes do.
inline constexpr std::string_view blocking_schedule = "1f1b-blocking";

/// By the name a job has for it; `flush` micro-batches at a time (0: all), the pipeline drained in between.
/// Throws Error where the schedule cannot be run.
std::vector<Operation> operation_order(std::string_view schedule, const PipelinePosition& position,
                                       int flush);

}  // namespace dtfm
