#include "cli/common/plan_notes.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dtfm::cli {

std::vector<std::string> batch_notes(const Plan& plan, const Job& job) {
  const auto by_count = [](const Pipeline& a, const Pipeline& b) {
    return a.micro_batches < b.micro_batches;
  };
  const auto [smallest, largest] =
      std::minmax_element(plan.pipelines.begin(), plan.pipelines.end(), by_count);
  long long sum = 0;
  for (const Pipeline& pipeline : plan.pipelines) sum += pipeline.micro_batches;
  const int needed = micro_batch_count(job);
  std::vector<std::string> notes;
  if (sum != needed)
    notes.push_back(
        fmt::format("the pipelines compute {} micro-batches, but job {} has {}", sum, job.name, needed));
  if (largest->micro_batches - smallest->micro_batches > 1)
    notes.push_back(
        fmt::format("the micro-batches are not distributed evenly: pipelines compute from {} to {} each",
                    smallest->micro_batches, largest->micro_batches));
  return notes;
}

std::vector<std::string> undecided_notes(const Job& job, const ExecutionConfig& used,
                                         const Automatic& undecided) {
  std::vector<std::string> choices;
  const auto add = [&](bool has_undecided, const char* key, const auto& value) {
    if (has_undecided) choices.push_back(fmt::format("{} {}", key, value));
  };
  add(undecided.micro_batch, "micro_batch", used.micro_batch);
  add(undecided.recomputation, "recompute", name_of(used.recomputation));
  add(undecided.schedule, "schedule", name_of(used.schedule));
  add(undecided.gradient_sync, "gradient_sync", name_of(used.gradient_sync));
  add(undecided.optimizer_sharding, "optimizer_sharding", name_of(used.optimizer_sharding));
  add(undecided.activations, "activations", used.compression.activations);
  add(undecided.gradients, "gradients", used.compression.gradients);
  if (choices.empty()) return {};
  return {fmt::format("neither the plan nor a search decides what job {} leaves open; used: {}", job.name,
                      fmt::join(choices, ", "))};
}

}  // namespace dtfm::cli
