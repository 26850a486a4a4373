#include "cli/plan/plan_decisions.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace dtfm::cli {

std::vector<io::PlanRecord::Decision> plan_decisions(const search::PlanCandidate& candidate) {
  const ExecutionConfig& how = candidate.plan.execution;
  return {{"micro_batch", how.micro_batch},
          {"recompute", std::string(name_of(how.recomputation))},
          {"schedule", std::string(name_of(how.schedule))},
          {"chunks", how.chunks.value_or(0)},
          {"flush", how.flush.value_or(0)},
          {"gradient_sync", std::string(name_of(how.gradient_sync))},
          {"tensor", candidate.plan.tensor},
          {"activations", how.compression.activations},
          {"gradients", how.compression.gradients}};
}

void keep_only_differences(std::vector<std::vector<io::PlanRecord::Decision>>& lists) {
  const auto all = lists;
  for (auto& list : lists) list.clear();
  for (std::size_t i = 0; !all.empty() && i < all.front().size(); ++i)
    if (std::any_of(all.begin(), all.end(), [&](const auto& list) { return list[i] != all.front()[i]; }))
      for (std::size_t k = 0; k < lists.size(); ++k) lists[k].push_back(all[k][i]);
}

std::string format_decisions(const std::vector<io::PlanRecord::Decision>& decisions) {
  std::string text;
  for (auto [name, value] : decisions) {
    if (value == io::PlanRecord::Decision{name, 0}.value) continue;  // 0: the plan has none
    std::replace(name.begin(), name.end(), '_', '-');
    if (!text.empty()) text += ", ";
    if (!std::holds_alternative<std::string>(value) || name == "recompute") text += name + " ";
    text += std::visit([](const auto& it) { return fmt::format("{}", it); }, value);
  }
  return text;
}

}  // namespace dtfm::cli
