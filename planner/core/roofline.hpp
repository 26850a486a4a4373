// Times of layers on a GPU that nobody has measured, from its data sheet.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "planner/core/job.hpp"
#include "planner/core/topology.hpp"

namespace dtfm {

/// A smooth roofline. Of FLOPs F, as many as the forward or the backward has, and bytes M of memory traffic
///   seconds = compute · F ÷ peak + memory · M ÷ bandwidth + launch,
/// with a constant `memory` of either direction; a head has that of the forward in both, for the gradient of
/// a loss is written over what it is of, in one pass. M is what the forward keeps for the backward, and the
/// weights once; where nothing is computed (a table is looked up) without them. So the share of the peak
/// grows with the arithmetic intensity F ÷ M, from nothing towards 1 ÷ compute. The update moves `update`
/// times the bytes that the optimizer holds. Fitted to measured profiles: configs/roofline.yaml.
struct Roofline {
  double compute = 1, memory_forward = 1, memory_backward = 2, launch_s = 0, update = 1;
};

/// What a GPU reaches at best in a job's precision: fp16, the tensor cores' peak; bf16 the same where they
/// have it (on GPUs that have TF32), else fp32's; tf32 where there is one, else fp32's. Nothing: the
/// catalogue does not say.
std::optional<FlopsPerSecond> peak_of(const Gpu& gpu, std::string_view precision);

/// One kind of the job's layers, at one micro-batch size, on one of `tensor` devices. Throws Error where the
/// catalogue gives the GPU no peak in the precision of the job, or no bandwidth of its memory.
ProfileRow estimated_row(const Gpu& gpu, const Layer& kind, const Training& training,
                         const Roofline& roofline, int micro_batch, int tensor);

/// The same from FLOPs alone: seconds = FLOPs ÷ (peak · efficiency); updates take no time. Throws Error where
/// there is no peak.
ProfileRow analytic_row(const Gpu& gpu, const Layer& kind, const Training& training, double efficiency,
                        int micro_batch, int tensor);

/// Rows of `estimated_row` for every kind of the model, tensor degree and micro-batch size.
LayerProfile estimated_profile(const Gpu& gpu, const Job& job, const Roofline& roofline,
                               std::span<const int> micro_batches, std::span<const int> tensor_degrees);

}  // namespace dtfm
