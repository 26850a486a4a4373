#include "cli/notes.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace dtfm {

std::vector<std::string> batch_notes(const Plan& plan, const Job& job) {
  const auto by_count = [](const Pipeline& a, const Pipeline& b) {
    return a.micro_batches < b.micro_batches;
  };
  const auto [fewest, most] = std::minmax_element(plan.pipelines.begin(), plan.pipelines.end(), by_count);
  long long sum = 0;
  for (const Pipeline& pipeline : plan.pipelines) sum += pipeline.micro_batches;
  const int needed = job.training.global_batch / job.training.micro_batch;
  std::vector<std::string> notes;
  if (sum != needed)
    notes.push_back(
        fmt::format("the pipelines compute {} micro-batches, job {} has {}", sum, job.name, needed));
  if (most->micro_batches - fewest->micro_batches > 1)
    notes.push_back(fmt::format("the pipelines compute from {} to {} micro-batches each, not even shares",
                                fewest->micro_batches, most->micro_batches));
  return notes;
}

}  // namespace dtfm
