// Data parallelism with partitioned model states: ZeRO (Rajbhandari et al., arXiv 1910.02054).
#pragma once

#include <optional>

#include "planner/core/gradient_sync.hpp"

namespace dtfm::sim {

/// What is partitioned over the replicas: gradients and optimizer states, or also the parameters.
enum class ZeroStage { gradients = 2, parameters = 3 };

/// The ZeRO stage of a Plan::gradient_sync; nullopt: model states are not partitioned.
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
