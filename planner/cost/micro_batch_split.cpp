#include "planner/cost/micro_batch_split.hpp"

#include <functional>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm {

/// Every share of `multiple` micro-batches goes where it ends first. Let e(p, k) be when pipeline p ends with
/// k shares; it does not fall with k. Any choice of n shares ends at the largest of n different e(p, k),
/// those of each pipeline's shares, so not before the n-th smallest of all; and taking the smallest one after
/// the other, of which the k-th of a pipeline never comes before its others, attains that.
std::vector<int> balanced_micro_batches(const std::vector<PipelinePace>& pipelines, int multiple, int total) {
  DTFM_ASSERT(!pipelines.empty() && multiple > 0 && total >= 0);
  if (total % multiple != 0)
    throw Error("", fmt::format("{} micro-batches are not a multiple of {}", total, multiple));
  std::vector<int> counts(pipelines.size());
  using End = std::pair<double, std::size_t>;  // with a share more, of which pipeline
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  const auto push = [&](std::size_t i) {
    ends.emplace(pipelines[i].fill_s + (counts[i] + multiple) * pipelines[i].steady_s, i);
  };
  for (std::size_t i = 0; i < pipelines.size(); ++i) push(i);
  for (int left = total; left > 0; left -= multiple) {
    const std::size_t first = ends.top().second;
    ends.pop();
    counts[first] += multiple;
    push(first);
  }
  return counts;
}

}  // namespace dtfm
