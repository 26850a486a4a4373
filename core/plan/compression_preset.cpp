#include "core/plan/compression_preset.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/kind_table.hpp"
#include "core/model/model_features.hpp"

namespace dtfm {
namespace {

using Parameter = CompressionTraits::Parameter;

/// Integers of `bits` bits and one fp32 scale per block of values. Compressing reads the values and writes
/// the integers; decompressing does the reverse.
CompressionEffect quantization_effect(double bits, double block, double value_bytes) {
  constexpr double scale_bits = 32;
  const double ratio = (bits + scale_bits / block) / (value_bytes * bits_per_byte);
  return {ratio, 2 * (1 + ratio)};
}

/// Compressing reads the gradients and the error feedback, and writes the new error feedback and what is sent
/// (the threshold is that of a sample). Decompressing fills with zeros and scatters.
CompressionEffect top_k_effect(double percent, double value_bytes, const Model&) {
  constexpr double index_bytes = 4;
  const double ratio = percent / 100 * (value_bytes + index_bytes) / value_bytes;
  return {ratio, (3 + ratio) + (1 + ratio)};
}

struct MatrixSizes {
  double total = 0, factors = 0;  // values of the matrices, and of their factors

  void add(double rows, double columns, double rank, double count = 1) {
    total += count * rows * columns;
    factors += count * std::min(rows * columns, rank * (rows + columns));
  }
};

MatrixSizes low_rank_sizes(const Transformer& model, double rank) {
  const double hidden = model.hidden, blocks = model.layers;
  const double queries = static_cast<double>(head_width(model)) * model.heads;
  const double keys = model.kv_heads > 0 ? queries / model.heads * model.kv_heads : queries;
  const double feed_forward = model.feed_forward > 0 ? model.feed_forward : 4 * hidden;
  MatrixSizes sizes;
  sizes.add(hidden, queries, rank, 2 * blocks);  // and the output
  sizes.add(hidden, keys, rank, 2 * blocks);
  sizes.add(hidden, feed_forward, rank, (model.gated ? 3 : 2) * blocks);
  sizes.add(model.vocabulary, hidden, rank, model.tied ? 1 : 2);
  if (model.encoder) sizes.add(hidden, hidden, rank, 2);  // pooler, and the transform before the head
  if (model.learned_positions)
    sizes.add(model.positions > 0 ? model.positions : model.sequence, hidden, rank);
  return sizes;
}

/// Vectors are sent uncompressed. Let M be the gradients plus the error feedback: M is written from both,
/// read once per factor and rebuilt from the factors, and the new error feedback is the difference. Memory
/// bounds each product, because a factor has so few columns. The ratio is the mean over the model, for
/// matrices that tensor parallelism does not divide.
CompressionEffect low_rank_effect(double rank, double value_bytes, const Model& model) {
  const auto* transformer = std::get_if<Transformer>(&model);
  if (transformer == nullptr)
    throw Error("",
                "low-rank compression requires a model of kind transformer, whose matrices are known; use "
                "`8-bit`, `4-bit` or `top-1%`");
  if (const std::string_view beyond = beyond_plain_blocks(*transformer); !beyond.empty())
    throw Error("",
                fmt::format("low-rank compression does not support models with {}; use `8-bit`, `4-bit` or "
                            "`top-1%`",
                            beyond));
  double parameters = 0;
  for (const Layer& layer : layer_chain(model, value_bytes))
    parameters += layer.parameters - layer.tied_parameters;
  const MatrixSizes sizes = low_rank_sizes(*transformer, rank);
  constexpr double compress = 3 + 2, decompress = 1 + 2;
  return {(parameters - sizes.total + sizes.factors) / parameters, compress + decompress};
}

constexpr auto methods = std::to_array<CompressionTraits>({
    {.kind = CompressionMethod::quantize_8_bit,
     .name = "8-bit",
     .suffix = "",
     .description = "`8-bit`",
     .parameter = Parameter::none,
     .compresses_activations = true,
     .has_error_feedback = false,
     .effect = [](double, double bytes, const Model&) { return quantization_effect(8, 2048, bytes); }},
    {.kind = CompressionMethod::quantize_4_bit,
     .name = "4-bit",
     .suffix = "",
     .description = "`4-bit`",
     .parameter = Parameter::none,
     .compresses_activations = true,
     .has_error_feedback = false,
     .effect = [](double, double bytes, const Model&) { return quantization_effect(4, 64, bytes); }},
    {.kind = CompressionMethod::top_k,
     .name = "top-",
     .suffix = "%",
     .description = "`top-1%` (any share)",
     .parameter = Parameter::share,
     .compresses_activations = false,
     .has_error_feedback = true,
     .effect = top_k_effect},
    {.kind = CompressionMethod::low_rank,
     .name = "rank-",
     .suffix = "",
     .description = "`rank-4` (any rank)",
     .parameter = Parameter::whole,
     .compresses_activations = false,
     .has_error_feedback = true,
     .effect = low_rank_effect},
});
static_assert(has_row_for_each(methods, CompressionMethod::low_rank));

std::optional<double> parse_parameter(std::string_view digits, Parameter kind) {
  if (kind == Parameter::whole && digits.find('.') != std::string_view::npos) return std::nullopt;
  double number = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, number, std::chars_format::fixed);
  if (result.ec != std::errc() || result.ptr != end || !(number > 0)) return std::nullopt;
  return number;
}

/// The shortest text without an exponent that reads back as the same number.
std::string format_parameter(double number) {
  std::array<char, 2048> text{};  // the smallest double takes 327 characters, and the largest 309
  const auto result = std::to_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  DTFM_ASSERT(result.ec == std::errc());
  return {text.data(), result.ptr};
}

std::optional<double> parse_parameter_of(const CompressionTraits& method, std::string_view name) {
  if (method.parameter == Parameter::none) return name == method.name ? std::optional(0.0) : std::nullopt;
  if (!name.starts_with(method.name) || !name.ends_with(method.suffix) ||
      name.size() <= method.name.size() + method.suffix.size())
    return std::nullopt;
  name.remove_prefix(method.name.size());
  name.remove_suffix(method.suffix.size());
  return parse_parameter(name, method.parameter);
}

}  // namespace

std::span<const CompressionTraits> compression_table() {
  return methods;
}

const CompressionTraits& traits(CompressionMethod method) {
  return row_of(methods, method);
}

std::string name_of(const CompressionPreset& preset) {
  const CompressionTraits& method = traits(preset.method);
  if (method.parameter == Parameter::none) return std::string(method.name);
  return fmt::format("{}{}{}", method.name, format_parameter(preset.parameter), method.suffix);
}

std::optional<CompressionPreset> parse_compression_preset(std::string_view name) {
  for (const CompressionTraits& method : methods)
    if (const auto parameter = parse_parameter_of(method, name))
      return CompressionPreset{method.kind, *parameter};
  return std::nullopt;
}

}  // namespace dtfm
