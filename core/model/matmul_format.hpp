// Number formats of matrix products that differ from the precision of the training.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/base/units.hpp"

namespace dtfm {

struct Gpu;

/// Weights, activations on the network and gradients stay in the precision of the training; the inputs of the
/// products of blocks with weights are quantized. The attention core, the embedding and the head are not
/// (Transformer Engine's recipes in Megatron-LM; DeepSeek-V3, arXiv 2412.19437, section 3.3.1).
enum class MatmulFormat : unsigned char {
  precision,      // that of the training
  fp8,            // a scale per tensor, delayed or current
  fp8_blockwise,  // a scale per 128 numbers of an activation, and per 128 × 128 weights
  mxfp8,          // a scale of 8 bits per 32 numbers (OCP Microscaling Formats 1.0)
  nvfp4           // fp4 with a scale of 8 bits per 16 numbers
};

struct MatmulFormatTraits {
  MatmulFormat kind;
  std::string_view name;  // in jobs
  /// Peak FLOP/s of a GPU in this format; null: that of the precision.
  std::optional<FlopsPerSecond> (*peak)(const Gpu& gpu) = nullptr;
  std::string_view peak_key = {};  // key of the GPU catalogue that is missing if `peak` returns nothing
  /// Bytes of a quantized number with its share of the scales: what the backward pass keeps of an input.
  double bytes = 0;
  double weight_bytes = 0;  // the same of a weight
};

/// A row for each value, in the order of the enum.
std::span<const MatmulFormatTraits> matmul_format_table();
const MatmulFormatTraits& traits(MatmulFormat format);
std::string_view name_of(MatmulFormat format);

/// Bytes per quantized parameter that a device keeps beside the weights: one copy for the forward and a
/// transposed one for the backward pass, which Transformer Engine makes once per iteration.
double quantized_copy_bytes(MatmulFormat format);

}  // namespace dtfm
