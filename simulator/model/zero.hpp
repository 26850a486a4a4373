// Data parallelism with partitioned model states: ZeRO (Rajbhandari et al., arXiv 1910.02054).
#pragma once

#include <optional>
#include <string_view>

namespace dtfm::sim {

/// What is partitioned over the replicas: gradients and optimizer states, or also the parameters.
enum class ZeroStage { gradients = 2, parameters = 3 };

/// The stage that a Plan::gradient_sync of `zero2` or `zero3` names; nullopt for all others.
constexpr std::optional<ZeroStage> zero_stage(std::string_view gradient_sync) {
  if (gradient_sync == "zero2") return ZeroStage::gradients;
  if (gradient_sync == "zero3") return ZeroStage::parameters;
  return std::nullopt;
}

}  // namespace dtfm::sim
