// Estimates the times of layers on a GPU without measurements, from its data sheet.
#pragma once

#include <optional>
#include <span>

#include "core/plan/job.hpp"
#include "core/plan/stage_mesh.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm {

/// A smooth roofline for the device, and the host as a floor: kernels are launched ahead of their execution,
/// so a pass takes as long as the slower of the two. For F FLOPs of the forward or of the backward, and M
/// bytes of memory traffic,
///
///   seconds = max(compute · F ÷ peak + memory · M ÷ bandwidth, launch),
///
/// with a separate constant `memory` for each direction. Embedding and head have few kernels and no floor.
/// The head uses the constant of the forward for both, because the gradient of a loss overwrites its input in
/// one pass. M is what the forward keeps for the backward, plus the weights once; without the weights where
/// nothing is computed (a table look-up). So the share of the peak grows with the arithmetic intensity F ÷ M,
/// from 0 towards 1 ÷ compute. The optimizer step moves `update` times the bytes of the optimizer state.
/// Fitted to measured profiles: configs/roofline.yaml. Quantized products have the same share of their own
/// peak; this is an assumption, as no profile of them was available.
struct RooflineConstants {
  double compute = 1, memory_forward = 1, memory_backward = 2, launch_s = 0, update = 1;
};

/// Trainers in 16 bits run fused kernels, which cross the memory less often than those of eager frameworks in
/// 32 bits, by which the measured profiles were made.
struct Roofline {
  RooflineConstants bits_16, bits_32;

  const RooflineConstants& of(const Training& training) const {
    return bytes_per_element(training) > 2 ? bits_32 : bits_16;
  }
};

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
