// Data parallelism with partitioned model states: ZeRO (Rajbhandari et al., arXiv 1910.02054).
#pragma once

#include <optional>

#include "planner/core/gradient_sync.hpp"

namespace dtfm::sim {

/// What the replicas hold a part of each: gradients and optimizer states, or the parameters too.
enum class ZeroStage { gradients = 2, parameters = 3 };

/// Of a plan with this Plan::gradient_sync; nullopt: model states are not partitioned.
constexpr std::optional<ZeroStage> zero_stage(GradientSync gradient_sync) {
  switch (gradient_sync) {
    case GradientSync::zero2:
      return ZeroStage::gradients;
    case GradientSync::zero3:
      return ZeroStage::parameters;
    default:
      return std::nullopt;
  }
}

}  // namespace dtfm::sim
