// Methods that compress activations and gradients, by the names of job files.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/model/model.hpp"

namespace dtfm {

enum class CompressionMethod : unsigned char {
  quantize_8_bit,  // block-wise 8 bits (Dettmers et al., arXiv 2110.02861)
  quantize_4_bit,  // NF4 (Dettmers et al., arXiv 2305.14314)
  top_k,           // the largest values and their indices (Lin et al., arXiv 1712.01887)
  low_rank,        // two factors of every matrix (PowerSGD: Vogels et al., arXiv 1905.13727)
};

/// A method and its parameter: `8-bit`, `4-bit`, `top-1%`, `rank-4`.
struct CompressionPreset {
  CompressionMethod method = CompressionMethod::quantize_8_bit;
  double parameter = 0;  // top_k: percent of the values; low_rank: rank; 0 for methods without parameter

  friend bool operator==(const CompressionPreset&, const CompressionPreset&) = default;
};

/// What a preset does to a tensor on one device.
struct CompressionEffect {
  double ratio = 1;  // bytes sent ÷ bytes uncompressed
  /// Bytes that compressing and decompressing together read and write in device memory ÷ bytes uncompressed.
  double traffic = 0;
};

struct CompressionTraits {
  enum class Parameter : unsigned char { none, share, whole };

  CompressionMethod kind;
  std::string_view name;         // what precedes the parameter in the name of a preset
  std::string_view suffix;       // what follows it
  std::string_view description;  // how a preset is written, for error messages
  Parameter parameter;
  bool compresses_activations;  // every method compresses gradients
  bool has_error_feedback;      // keeps what it did not send and adds it to the next gradients
  /// `value_bytes`: of one value uncompressed. Throws Error if the effect on this model is unknown.
  CompressionEffect (*effect)(double parameter, double value_bytes, const Model& model);
};

/// A row for each value, in the order of the enum.
std::span<const CompressionTraits> compression_table();
const CompressionTraits& traits(CompressionMethod method);

/// The name in job files.
std::string name_of(const CompressionPreset& preset);
/// The preset of that name; nullopt if there is none.
std::optional<CompressionPreset> parse_compression_preset(std::string_view name);

}  // namespace dtfm
