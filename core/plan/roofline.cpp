#include "core/plan/roofline.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/plan/model_state.hpp"

namespace dtfm {
namespace {

/// What one device computes and moves for one kind of layer, per micro-batch. `forward_flops` and
/// `backward_flops` are those outside of fused attention, whose masked part is not counted.
struct LayerWork {
  double forward_flops = 0, backward_flops = 0, fused_forward_flops = 0, fused_backward_flops = 0, bytes = 0,
         state_bytes = 0;
};

/// Backward ÷ forward FLOPs of a fused attention kernel: five matrix products instead of two.
constexpr double fused_backward_flops_per_forward = 2.5;

/// Share of fused attention in the FLOPs of a layer. Attention without a mask counts as other products.
double fused_share(const Layer& kind) {
  return kind.skipped_attention.value() > 0 ? kind.attention / kind.forward : 0;
}

/// Time of a layer's products, fused attention aside, ÷ their time at the rate of the precision: products of
/// blocks with weights have the rate of their format; the attention core, scans, the embedding and the head
/// have that of the precision.
double product_time_share(const Gpu& gpu, const Layer& kind, const Training& training) {
  const auto peak = peak_of(gpu, training.precision), quantized = matmul_peak(gpu, training);
  const Flops products = kind.forward * (1 - fused_share(kind));
  if (!peak || !quantized || products.value() == 0) return 1;
  const double share = (kind.forward - kind.attention - kind.head - kind.unweighted) / products;
  return 1 - share * (1 - peak->value() / quantized->value());
}

LayerWork work_of(const Layer& kind, const Training& training, int micro_batch, const StageMesh& mesh,
                  bool sequence_parallel) {
  const double share = static_cast<double>(micro_batch) / mesh.devices();
  const double parameters = mesh.held_parameters(kind);
  const bool computes = kind.forward.value() > 0;
  const Bytes activations =
      with_activations_of_device(kind, mesh.tensor, sequence_parallel, mesh.token_parts()).activation_memory;
  const double fused = fused_share(kind);
  const double fused_flops = fused > 0 ? (kind.attention - kind.skipped_attention).value() * share : 0;
  return {kind.forward.value() * (1 - fused) * share,
          kind.backward.value() * (1 - fused) * share,
          fused_flops,
          fused_backward_flops_per_forward * fused_flops,
          activations.value() * micro_batch + (computes ? parameters * bytes_per_element(training) : 0),
          parameters * parameter_bytes(training).resident};
}

/// Of one device. Those of experts are counted in proportion to their parameters.
double orthogonalization_flops(const Layer& kind, const StageMesh& mesh) {
  if (kind.matrix_parameters == 0) return 0;
  const double experts = std::min(1.0, kind.expert_parameters / kind.matrix_parameters);
  return kind.orthogonalization.value() * ((1 - experts) / mesh.shards(false) + experts / mesh.shards(true));
}

/// Of the precision. Throws Error if it or that of the format of products is unknown.
double require_peak(const Gpu& gpu, const Training& training) {
  if (training.matmul != MatmulFormat::precision && !matmul_peak(gpu, training))
    throw Error("", fmt::format("times on GPU {} cannot be estimated: its entry in the catalogue has no `{}`",
                                gpu.name, traits(training.matmul).peak_key));
  const auto peak = peak_of(gpu, training.precision);
  if (!peak)
    throw Error("", fmt::format("times on GPU {} cannot be estimated: its entry in the catalogue has no {}",
                                gpu.name, traits(training.precision).peak_keys));
  return peak->value();
}

}  // namespace

Roofline uniform_roofline(const RooflineConstants& constants) {
  Roofline roofline;
  roofline.bits_16.fill(constants);
  roofline.bits_32 = roofline.bits_16;
  return roofline;
}

std::optional<FlopsPerSecond> peak_of(const Gpu& gpu, Precision precision) {
  return traits(precision).peak(gpu);
}

std::optional<FlopsPerSecond> matmul_peak(const Gpu& gpu, const Training& training) {
  const MatmulFormatTraits& format = traits(training.matmul);
  return format.peak ? format.peak(gpu) : peak_of(gpu, training.precision);
}

bool can_estimate(const Gpu& gpu, const Training& training) {
  return gpu.memory_bandwidth && peak_of(gpu, training.precision) && matmul_peak(gpu, training);
}

ProfileRow estimated_row(const Gpu& gpu, const Layer& kind, const Training& training,
                         const RooflineConstants& roofline, int micro_batch, const StageMesh& mesh,
                         bool sequence_parallel) {
  const double peak = require_peak(gpu, training);
  if (!gpu.memory_bandwidth)
    throw Error("", fmt::format("times on GPU {} cannot be estimated: its entry in the catalogue has no "
                                "`memory_bandwidth`",
                                gpu.name));
  const LayerWork work = work_of(kind, training, micro_batch, mesh, sequence_parallel);
  const double flops_per_second = peak / product_time_share(gpu, kind, training);
  const double bytes_per_second = gpu.memory_bandwidth->value() / bits_per_byte,
               traffic_s = work.bytes / bytes_per_second;
  // Embedding and head have few kernels.
  const bool is_head = kind.head.value() > 0 && kind.matrix_parameters == 0;
  const bool is_end = is_head || kind.forward.value() == 0;
  const double tensor_launch = sequence_parallel && mesh.tensor > 1 ? roofline.tensor_launch : 1;
  const double launch_s = is_end ? 0 : roofline.launch_s * tensor_launch;
  const auto pass_s = [&](double flops, double fused_flops, double memory) {
    return std::max(roofline.compute * flops / flops_per_second + roofline.attention * fused_flops / peak +
                        (is_end ? roofline.memory_head : memory) * traffic_s,
                    launch_s);
  };
  const double forward = pass_s(work.forward_flops, work.fused_forward_flops, roofline.memory_forward),
               backward = pass_s(work.backward_flops, work.fused_backward_flops, roofline.memory_backward);
  double update = roofline.update * work.state_bytes / bytes_per_second;
  if (traits(training.optimizer).orthogonalizes)
    update += roofline.compute * orthogonalization_flops(kind, mesh) / peak;
  return {kind.name, micro_batch, mesh.tensor, {forward}, {backward}, Timing{update}, {}, {}};
}

ProfileRow analytic_row(const Gpu& gpu, const Layer& kind, const Training& training, double efficiency,
                        int micro_batch, const StageMesh& mesh) {
  const LayerWork work = work_of(kind, training, micro_batch, mesh, true);
  const double peak = require_peak(gpu, training) * efficiency,
               products = peak / product_time_share(gpu, kind, training);
  // `efficiency` is a model FLOPs utilization: its FLOPs include the masked scores, as in published figures.
  const double share = static_cast<double>(micro_batch) / mesh.devices() * fused_share(kind);
  return {kind.name,
          micro_batch,
          mesh.tensor,
          {work.forward_flops / products + kind.forward.value() * share / peak},
          {work.backward_flops / products + kind.backward.value() * share / peak},
          {},
          {},
          {}};
}

LayerProfile estimated_profile(const Gpu& gpu, const Job& job, const Roofline& roofline,
                               std::span<const int> micro_batches, std::span<const int> tensor_degrees) {
  LayerProfile profile;
  profile.gpu = gpu.name;
  profile.source = LayerProfile::Source::estimated;
  profile.derivation =
      "roofline: peak and memory bandwidth of the data sheet, efficiencies of configs/roofline.yaml";
  if (!job.parallelism.sequence_parallel) profile.derivation += ", without sequence parallelism";
  profile.precision = job.training.precision;
  profile.model = job.name;
  if (const auto* shape = std::get_if<Transformer>(&job.model)) profile.shape = *shape;
  for (const Layer& kind : layer_kinds(job.model, activation_bytes(job.training)).kinds)
    for (const int tensor : tensor_degrees)
      for (const int micro_batch : micro_batches)
        profile.rows.push_back(estimated_row(gpu, kind, job.training, roofline.of(gpu, job.training),
                                             micro_batch, {.tensor = tensor},
                                             job.parallelism.sequence_parallel));
  return profile;
}

}  // namespace dtfm
