// JSON values that several documents have.
#pragma once

#include <cmath>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "core/cluster/calibration.hpp"
#include "core/cluster/link_range.hpp"

namespace dtfm::io {

/// JSON cannot represent infinity, so it becomes null.
inline nlohmann::ordered_json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nullptr;
}

inline nlohmann::ordered_json number_or_null(const std::optional<double>& value) {
  return value ? finite_or_null(*value) : nullptr;
}

/// For numbers whose value 0 means unknown.
inline nlohmann::ordered_json positive_or_null(double value) {
  return value > 0 ? nlohmann::ordered_json(value) : nullptr;
}

inline nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nullptr : nlohmann::ordered_json(text);
}

inline nlohmann::ordered_json interval_json(const PredictionInterval& it) {
  return {{"low", it.low_s}, {"high", it.high_s}, {"level", it.level}, {"source", it.source}};
}

/// Returns the keys `latency_s` and `bandwidth_bps`, each [min, max].
inline nlohmann::ordered_json range_json(const LinkRange& range) {
  return {{"latency_s", {range.min_latency.value(), range.max_latency.value()}},
          {"bandwidth_bps", {range.min_bandwidth.value(), range.max_bandwidth.value()}}};
}

}  // namespace dtfm::io
