#include "planner/cost/iteration_time/micro_batch_split.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm::cost {
namespace {

/// Micro-batches per pipeline that belong to the optimum for certain. Finds by bisection a time by which at
/// most `shares` shares of `multiple` micro-batches have ended, and nearly as many; all of these are among
/// the first `shares` to end. A pipeline that takes no time per micro-batch gets none.
std::vector<int> early_shares(const std::vector<PipelinePace>& pipelines, int multiple, int shares) {
  std::vector<int> counts(pipelines.size());
  double low = pipelines.front().warm_up_s, high = low;
  for (const PipelinePace& it : pipelines) {
    low = std::min(low, it.warm_up_s);
    high = std::max(high, it.warm_up_s + it.steady_s * multiple * shares);
  }
  for (const PipelinePace& it : pipelines)
    if (!(it.steady_s > 0)) high = std::min(high, it.warm_up_s);  // where all remaining shares end
  const auto shares_by = [&](double date, std::size_t i) {
    if (!(pipelines[i].steady_s > 0)) return 0.0;
    return std::max(0.0, (date - pipelines[i].warm_up_s) / (pipelines[i].steady_s * multiple));
  };
  constexpr double precision = 1e-9;  // of the time
  const double tolerance = precision * std::max(std::abs(low), std::abs(high));
  while (high - low > tolerance) {
    const double middle = low + (high - low) / 2;
    double sum = 0;
    for (std::size_t i = 0; i < pipelines.size(); ++i) sum += shares_by(middle, i);
    (sum <= shares ? low : high) = middle;
  }
  low -= precision * std::abs(low);  // so that rounding cannot count too many
  for (std::size_t i = 0; i < pipelines.size(); ++i)
    counts[i] = static_cast<int>(shares_by(low, i)) * multiple;
  return counts;
}

}  // namespace

/// Greedy: every share of `multiple` micro-batches goes to the pipeline that ends it first. Let e(p, k) be
/// the time at which pipeline p ends with k shares; it does not decrease with k. Any assignment of n shares
/// ends at the largest of n different e(p, k), so not before the n-th smallest of all. Taking the smallest
/// repeatedly attains that bound, since the k-th share of a pipeline never precedes its earlier ones.
std::vector<int> balanced_micro_batches(const std::vector<PipelinePace>& pipelines, int multiple, int total) {
  DTFM_ASSERT(!pipelines.empty() && multiple > 0 && total >= 0);
  if (total % multiple != 0)
    throw Error("", fmt::format("{} micro-batches are not a multiple of {}", total, multiple));
  std::vector<int> counts = early_shares(pipelines, multiple, total / multiple);
  const int assigned = std::accumulate(counts.begin(), counts.end(), 0);
  using End = std::pair<double, std::size_t>;  // with one more share; pipeline
  std::priority_queue<End, std::vector<End>, std::greater<>> ends;
  const auto push = [&](std::size_t i) {
    ends.emplace(pipelines[i].warm_up_s + (counts[i] + multiple) * pipelines[i].steady_s, i);
  };
  for (std::size_t i = 0; i < pipelines.size(); ++i) push(i);
  for (int left = total - assigned; left > 0; left -= multiple) {
    const std::size_t first = ends.top().second;
    ends.pop();
    if (!(pipelines[first].steady_s > 0)) {  // its next share ends first again
      counts[first] += left;
      break;
    }
    counts[first] += multiple;
    push(first);
  }
  return counts;
}

}  // namespace dtfm::cost
