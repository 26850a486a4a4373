#include "planner/core/compression.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/model_state.hpp"

namespace dtfm {
namespace {

constexpr double scale_bits = 32, sparse_index_bytes = 4;

/// Integers of so many bits and one fp32 scale for every block: read whole, written coded; and the other way.
struct Quantization {
  std::string_view name;
  double bits, block;
};

/// Block-wise 8 bits: Dettmers et al., arXiv 2110.02861. 4 bits: NF4 of arXiv 2305.14314.
constexpr Quantization quantizations[] = {{"8-bit", 8, 2048}, {"4-bit", 4, 64}};

std::optional<CompressionPreset> quantization_preset(std::string_view name, double bytes) {
  for (const Quantization& it : quantizations) {
    if (it.name != name) continue;
    const double ratio = (it.bits + scale_bits / it.block) / (bytes * bits_per_byte);
    return CompressionPreset{ratio, 2 * (1 + ratio)};
  }
  return std::nullopt;
}

/// The number between `before` and `after`.
std::optional<double> parse_number_between(std::string_view name, std::string_view before,
                                           std::string_view after) {
  if (!name.starts_with(before) || !name.ends_with(after) || name.size() <= before.size() + after.size())
    return std::nullopt;
  const std::string_view digits = name.substr(before.size(), name.size() - before.size() - after.size());
  double number = 0;
  const auto [end, status] =
      std::from_chars(digits.data(), digits.data() + digits.size(), number, std::chars_format::fixed);
  if (status != std::errc() || end != digits.data() + digits.size() || !(number > 0)) return std::nullopt;
  return number;
}

/// Of a share of the numbers, value and index. Compressing reads the gradients and what was kept, and writes
/// what is kept and sent (Lin et al., arXiv 1712.01887, whose threshold is a sample's); expanding fills with
/// zeros and scatters.
CompressionPreset top_k_preset(double share, double bytes) {
  const double ratio = share * (bytes + sparse_index_bytes) / bytes;
  return {ratio, (3 + ratio) + (1 + ratio)};
}

struct MatrixSizes {
  double total = 0, factors = 0;  // numbers: of the matrices, and of their factors
  void add(double rows, double columns, double rank, double count = 1) {
    total += count * rows * columns;
    factors += count * std::min(rows * columns, rank * (rows + columns));
  }
};

MatrixSizes low_rank_sizes(const Transformer& model, double rank) {
  const double hidden = model.hidden, blocks = model.layers;
  const double keys = hidden / model.heads * (model.kv_heads > 0 ? model.kv_heads : model.heads);
  const double feed_forward = model.feed_forward > 0 ? model.feed_forward : 4 * hidden;
  MatrixSizes sizes;
  sizes.add(hidden, hidden, rank, 2 * blocks);  // queries, output
  sizes.add(hidden, keys, rank, 2 * blocks);
  sizes.add(hidden, feed_forward, rank, (model.gated ? 3 : 2) * blocks);
  sizes.add(model.vocabulary, hidden, rank, model.tied ? 1 : 2);
  if (model.encoder) sizes.add(hidden, hidden, rank, 2);  // pooler, and the transform before the head
  if (model.learned_positions)
    sizes.add(model.positions > 0 ? model.positions : model.sequence, hidden, rank);
  return sizes;
}

/// Two factors of every matrix (PowerSGD: Vogels et al., arXiv 1905.13727); vectors go whole. With M the
/// gradients and what was kept: M is written from both, read for either factor, rebuilt from the factors, and
/// what is kept is the difference. Each product has so few columns that memory bounds it.
CompressionPreset low_rank_preset(double rank, const Training& training, const Model& model) {
  const auto* transformer = std::get_if<Transformer>(&model);
  if (transformer == nullptr)
    throw Error("", "ranks are for models of kind transformer, whose matrices are known");
  double parameters = 0;
  for (const Layer& layer : layer_chain(model, bytes_per_element(training)))
    parameters += layer.parameters - layer.tied_parameters;
  const MatrixSizes sizes = low_rank_sizes(*transformer, rank);
  const double compress = 3 + 2, expand = 1 + 2;
  return {(parameters - sizes.total + sizes.factors) / parameters, compress + expand};
}

double min_memory_bandwidth(const Topology& topology) {
  double min_bandwidth = 0;
  for (const Device& device : topology.devices) {
    const Gpu* gpu = device.gpu < 0 ? nullptr : &topology.gpus[at(device.gpu)];
    if (gpu == nullptr || !gpu->memory_bandwidth)
      throw Error("",
                  fmt::format("compression takes time in memory, whose bandwidth nobody knows for device {} "
                              "({}): give the GPU its `memory_bandwidth`, or `compression` a `throughput`",
                              device.id, gpu == nullptr ? "no `gpu`" : gpu->name));
    const double bandwidth = gpu->memory_bandwidth->value() / bits_per_byte * device.speed;
    min_bandwidth = min_bandwidth == 0 ? bandwidth : std::min(min_bandwidth, bandwidth);
  }
  return min_bandwidth;
}

double compression_s_per_byte(const Topology& topology, const Job& job, double ratio, double traffic) {
  if (job.compression.throughput) return ratio == 1 ? 0 : bits_per_byte / job.compression.throughput->value();
  return traffic > 0 ? traffic / 2 / min_memory_bandwidth(topology) : 0;
}

}  // namespace

CompressionPreset activation_preset(std::string_view name, const Training& training) {
  if (const auto preset = quantization_preset(name, bytes_per_element(training))) return *preset;
  throw Error("", "there are `8-bit` and `4-bit`, ratios, and `auto`");
}

CompressionPreset gradient_preset(std::string_view name, const Training& training, const Model& model) {
  const double bytes = parameter_bytes(training).synced;
  CompressionPreset preset;
  if (const auto found = quantization_preset(name, bytes))
    preset = *found;
  else if (const auto percent = parse_number_between(name, "top-", "%"))
    preset = top_k_preset(*percent / 100, bytes);
  else if (const auto rank = parse_number_between(name, "rank-", "");
           rank && name.find('.') == std::string_view::npos)
    preset = low_rank_preset(*rank, training, model);
  else
    throw Error("",
                "there are `8-bit`, `4-bit`, `top-1%` (any share), `rank-4` (any rank), ratios, and `auto`");
  if (preset.ratio >= 1) throw Error("", "makes nothing smaller");
  return preset;
}

void compress_activations(Job& job, const std::string& preset) {
  job.compression.activations = activation_preset(preset, job.training).ratio;
  job.compression.activation_preset = preset;
}

void compress_gradients(Job& job, const std::string& preset) {
  job.compression.gradients = gradient_preset(preset, job.training, job.model).ratio;
  job.compression.gradient_preset = preset;
}

double activation_compression_s_per_byte(const Topology& topology, const Job& job) {
  const Compression& it = job.compression;
  const double traffic =
      it.activation_preset.empty() ? 0 : activation_preset(it.activation_preset, job.training).traffic;
  return compression_s_per_byte(topology, job, it.activations, traffic);
}

double gradient_compression_s_per_byte(const Topology& topology, const Job& job) {
  const Compression& it = job.compression;
  const double traffic =
      it.gradient_preset.empty() ? 0 : gradient_preset(it.gradient_preset, job.training, job.model).traffic;
  return compression_s_per_byte(topology, job, it.gradients, traffic);
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

double error_feedback_bytes(const Job& job) {
  const std::string& preset = job.compression.gradient_preset;
  return preset.starts_with("top-") || preset.starts_with("rank-") ? parameter_bytes(job.training).synced : 0;
}

}  // namespace dtfm
