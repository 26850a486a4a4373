// Data parallelism with partitioned model states: ZeRO (Rajbhandari et al., arXiv 1910.02054).
#pragma once

#include <optional>
#include <string_view>

namespace dtfm::sim {

/// What the replicas hold a part of each: gradients and optimizer states, or the parameters too.
enum class ZeroStage { gradients = 2, parameters = 3 };

/// Of a plan with this Plan::gradient_sync: `zero2`, `zero3`; else nothing.
constexpr std::optional<ZeroStage> zero_stage(std::string_view gradient_sync) {
  if (gradient_sync == "zero2") return ZeroStage::gradients;
  if (gradient_sync == "zero3") return ZeroStage::parameters;
  return std::nullopt;
}

}  // namespace dtfm::sim
