// Values of the settings of jobs and plans.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/units.hpp"
#include "core/plan/compression_preset.hpp"

namespace dtfm {

/// Bytes sent ÷ bytes uncompressed, and the preset that defines this ratio, if one does.
struct CompressionRatio {
  double ratio = 1;
  std::optional<CompressionPreset> preset = {};

  friend bool operator==(const CompressionRatio&, const CompressionRatio&) = default;
};

/// The value of a setting, by its type; monostate: it has none.
using SettingValue =
    std::variant<std::monostate, bool, int, double, std::string_view, CompressionRatio, BitsPerSecond>;

inline bool is_none(const SettingValue& value) {
  return std::holds_alternative<std::monostate>(value);
}

inline bool is_among(const std::vector<SettingValue>& values, const SettingValue& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace dtfm
