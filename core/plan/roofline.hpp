// Estimates the times of layers on a GPU without measurements, from its data sheet.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "core/plan/job.hpp"
#include "core/plan/stage_mesh.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm {

/// A smooth roofline for the device, and the host as a floor: kernels are launched ahead of their execution,
/// so a pass takes as long as the slower of the two. For A FLOPs of fused causal attention without the masked
/// part, F other FLOPs, and M bytes of memory traffic,
///
///   seconds = max((compute · F + attention · A) ÷ peak + memory · M ÷ bandwidth, launch).
///
/// A fused attention kernel, which stores no scores, skips what a causal mask hides, and its backward
/// computes the scores again: A of the backward is 2.5 times that of the forward (FlashAttention-2, arXiv
/// 2307.08691, section 4.1). Attention that masks nothing or stores its scores counts in F, like any other
/// matrix product.
///
/// `memory` is `memory_forward` or `memory_backward` in blocks, and `memory_head` in both directions of head
/// and embedding, which have few kernels and no floor. M is what the forward keeps for the backward, plus the
/// weights once; without the weights where nothing is computed (a table look-up). So the share of the peak
/// grows with the arithmetic intensity F ÷ M, from 0 towards 1 ÷ compute. In tensor-parallel groups with
/// sequence parallelism, whose collectives add kernels, `launch` is `tensor_launch` times as long. The
/// optimizer step moves `update` times the bytes of the optimizer state.
/// Fitted to measured iterations and profiles: configs/roofline.yaml. Quantized products are assumed to reach
/// the same share of their own peak, as no profile of them was available.
struct RooflineConstants {
  double compute = 1, attention = 1, memory_forward = 1, memory_backward = 2, memory_head = 1, launch_s = 0,
         tensor_launch = 1, update = 1;

  /// Constants with which device times are `work` times, and launch times `launch` times, as long.
  RooflineConstants scaled(double work, double launch) const {
    return {work * compute,     work * attention,  work * memory_forward, work * memory_backward,
            work * memory_head, launch * launch_s, tensor_launch,         work * update};
  }
};

/// Roofline constants by GPU generation. Trainers in 16 bits run fused kernels, which cross the memory less
/// often than those of eager frameworks in 32 bits, by which the measured profiles were made.
struct Roofline {
  using ByArchitecture = std::array<RooflineConstants, architecture_count>;
  ByArchitecture bits_16 = {}, bits_32 = {};

  const RooflineConstants& of(const Gpu& gpu, const Training& training) const {
    const ByArchitecture& constants = bytes_per_element(training) > 2 ? bits_32 : bits_16;
    return constants[static_cast<std::size_t>(gpu.architecture)];
  }
};

/// The same constants for all GPUs and precisions.
Roofline uniform_roofline(const RooflineConstants& constants);

/// Returns the peak FLOP/s of a GPU in a job's precision; nullopt if the GPU catalogue does not give it.
std::optional<FlopsPerSecond> peak_of(const Gpu& gpu, Precision precision);

/// The same for matrix products in the job's format.
std::optional<FlopsPerSecond> matmul_peak(const Gpu& gpu, const Training& training);

/// Whether the catalogue gives the GPU's peaks in the job's precision and in its format of products, and its
/// memory bandwidth.
bool can_estimate(const Gpu& gpu, const Training& training);

/// Estimates one kind of the job's layers at one micro-batch size, on one of the devices of a mesh, which
/// divide its memory traffic as they divide its activations. Throws Error unless `can_estimate`.
ProfileRow estimated_row(const Gpu& gpu, const Layer& kind, const Training& training,
                         const RooflineConstants& roofline, int micro_batch, const StageMesh& mesh,
                         bool sequence_parallel);

/// Like `estimated_row`, from FLOPs alone: seconds = FLOPs ÷ (peak · efficiency); updates take no time.
/// Throws Error if no peak is known.
ProfileRow analytic_row(const Gpu& gpu, const Layer& kind, const Training& training, double efficiency,
                        int micro_batch, const StageMesh& mesh);

/// Returns rows of `estimated_row` for every kind of layer, tensor degree and micro-batch size.
LayerProfile estimated_profile(const Gpu& gpu, const Job& job, const Roofline& roofline,
                               std::span<const int> micro_batches, std::span<const int> tensor_degrees);

}  // namespace dtfm
