// The number formats that a model is trained in.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "core/base/units.hpp"

namespace dtfm {

struct Gpu;

enum class Precision : unsigned char { fp16, bf16, tf32, fp32 };

struct PrecisionTraits {
  Precision kind;
  std::string_view name;     // in jobs and profiles
  double bytes_per_element;  // of weights, activations and their gradients in memory and on the network
  /// Peak FLOP/s of a GPU; nullopt if the GPU catalogue does not give it.
  std::optional<FlopsPerSecond> (*peak)(const Gpu& gpu);
  std::string_view peak_keys;  // keys of the GPU catalogue that are missing if `peak` returns nothing
};

/// A row for each value, in the order of the enum.
std::span<const PrecisionTraits> precision_table();
const PrecisionTraits& traits(Precision precision);
std::string_view name_of(Precision precision);

}  // namespace dtfm
