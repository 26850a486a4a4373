#include "core/plan/compression.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/model_state.hpp"

namespace dtfm {
namespace {

CompressionEffect effect_of(const CompressionPreset& preset, double value_bytes, const Model& model) {
  return traits(preset.method).effect(preset.parameter, value_bytes, model);
}

/// In bytes per second.
double min_memory_bandwidth(const Topology& topology) {
  double min_bandwidth = 0;
  for (const Device& device : topology.devices) {
    const Gpu* gpu = device.gpu < 0 ? nullptr : &topology.gpus[at(device.gpu)];
    if (gpu == nullptr || !gpu->memory_bandwidth)
      throw Error(
          "",
          fmt::format("the duration of compression on device {} ({}) is unknown: set `memory_bandwidth` of "
                      "the GPU, or `throughput` of `compression`",
                      device.id, gpu == nullptr ? "no `gpu`" : gpu->name));
    const double bandwidth = gpu->memory_bandwidth->value() / bits_per_byte * device.speed;
    min_bandwidth = min_bandwidth == 0 ? bandwidth : std::min(min_bandwidth, bandwidth);
  }
  return min_bandwidth;
}

double compression_s_per_byte(const Topology& topology, const Compression& compression, double ratio,
                              double traffic) {
  if (compression.throughput) return ratio == 1 ? 0 : bits_per_byte / compression.throughput->value();
  return traffic > 0 ? traffic / 2 / min_memory_bandwidth(topology) : 0;
}

}  // namespace

CompressionEffect activation_compression(const CompressionPreset& preset, const Training& training,
                                         const Model& model) {
  if (!traits(preset.method).compresses_activations)
    throw Error("", fmt::format("`{}` compresses gradients only; use `8-bit` or `4-bit` for activations",
                                name_of(preset)));
  return effect_of(preset, bytes_per_element(training), model);
}

CompressionEffect gradient_compression(const CompressionPreset& preset, const Training& training,
                                       const Model& model) {
  const CompressionEffect effect = effect_of(preset, parameter_bytes(training).synced, model);
  if (effect.ratio >= 1)
    throw Error(
        "", fmt::format(
                "`{}` does not make the gradients smaller; use a smaller {}", name_of(preset),
                traits(preset.method).parameter == CompressionTraits::Parameter::share ? "share" : "rank"));
  return effect;
}

void compress_activations(Job& job, const CompressionPreset& preset) {
  job.execution.compression.activations = activation_compression(preset, job.training, job.model).ratio;
  job.execution.compression.activation_preset = preset;
}

void compress_gradients(Job& job, const CompressionPreset& preset) {
  job.execution.compression.gradients = gradient_compression(preset, job.training, job.model).ratio;
  job.execution.compression.gradient_preset = preset;
}

double activation_compression_s_per_byte(const Topology& topology, const Job& job, const Compression& it) {
  const double traffic = it.activation_preset
                             ? activation_compression(*it.activation_preset, job.training, job.model).traffic
                             : 0;
  return compression_s_per_byte(topology, it, it.activations, traffic);
}

double gradient_compression_s_per_byte(const Topology& topology, const Job& job, const Compression& it) {
  const double traffic =
      it.gradient_preset ? gradient_compression(*it.gradient_preset, job.training, job.model).traffic : 0;
  return compression_s_per_byte(topology, it, it.gradients, traffic);
}

bool is_compressed(const Topology& topology, const Compression& compression, int from, int to) {
  return from != to && (!compression.bandwidth_threshold ||
                        topology.uncontended_bandwidth(from, to) < *compression.bandwidth_threshold);
}

bool is_compressed(const Topology& topology, const Compression& compression, std::span<const int> devices) {
  if (!compression.bandwidth_threshold) return true;
  for (const int from : devices)
    for (const int to : devices)
      if (from != to && is_compressed(topology, compression, from, to)) return true;
  return false;
}

double error_feedback_bytes(const Training& training, const Compression& compression) {
  const auto& preset = compression.gradient_preset;
  return preset && traits(preset->method).has_error_feedback ? parameter_bytes(training).synced : 0;
}

}  // namespace dtfm
