#include "planner/cost/iteration_time/warm_up.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/index.hpp"

namespace dtfm::cost {
namespace {

/// Visits every cycle from stage `first`: its last stage, and its seconds. It contains the weight gradients
/// of its first stage, and those of others unless the backward is split.
template <class Visit>
void for_each_cycle(const PipelineWork& work, bool splits_backward, std::size_t first, const Visit& visit) {
  double sum = work.forward_s[first] + work.backward_s[first];
  for (std::size_t last = first + 1; last < work.forward_s.size(); ++last) {
    const HopTime &there = work.forward_hops[last - 1], &back = work.backward_hops[last - 1];
    sum += there.occupancy_s + there.latency_s + back.occupancy_s + back.latency_s;
    sum += work.forward_s[last] + work.backward_s[last];
    if (splits_backward) sum -= work.weight_gradient_s[last];
    visit(last, sum);
  }
}

/// The shortest warm-ups with which no cycle takes more than `period_s` per micro-batch; nullopt if one is
/// longer than its maximum.
std::optional<std::vector<int>> warm_ups_for(const PipelineWork& work, bool splits_backward,
                                             const std::vector<int>& most, double period_s) {
  constexpr double rounding = 1e-9;  // of the sums of a cycle
  std::vector<int> result(most.size());
  for (std::size_t first = most.size(); first-- > 0;) {
    double least = first + 1 < most.size() ? result[first + 1] + 1 : 0;
    for_each_cycle(work, splits_backward, first, [&](std::size_t last, double sum) {
      least = std::max(least, result[last] - 1 + std::ceil(sum / period_s * (1 - rounding)));
    });
    if (least > most[first]) return std::nullopt;
    result[first] = static_cast<int>(least);
  }
  return result;
}

}  // namespace

double alternating_steady_s(const PipelineWork& work, const std::vector<int>& warm_ups,
                            bool splits_backward) {
  double most = busiest_s(work);
  for (std::size_t first = 0; first < warm_ups.size(); ++first)
    for_each_cycle(work, splits_backward, first, [&](std::size_t last, double sum) {
      most = std::max(most, sum / (warm_ups[first] - warm_ups[last] + 1));
    });
  return most;
}

std::vector<int> shortest_warm_ups(int stages) {
  std::vector<int> result;
  for (int after = stages - 1; after >= 0; --after) result.push_back(after);
  return result;
}

std::vector<int> choose_warm_ups(const PipelineWork& work, double scale, bool splits_backward) {
  const std::vector<int> shortest = shortest_warm_ups(static_cast<int>(work.forward_s.size()));
  std::vector<int> most = shortest;
  for (std::size_t stage = 0; stage < most.size(); ++stage)
    most[stage] = std::max(most[stage], std::min(work.max_warm_ups[stage], work.micro_batches));
  double low_s = busiest_s(work) / scale;
  if (low_s == 0) return shortest;
  if (const auto ideal = warm_ups_for(work, splits_backward, most, low_s)) return *ideal;
  constexpr double precision = 1e-3;  // of the period: far below the error of estimates
  double high_s = alternating_steady_s(work, shortest, splits_backward);
  std::vector<int> best = shortest;
  while (high_s > low_s * (1 + precision)) {
    const double middle_s = std::sqrt(low_s * high_s);
    if (auto found = warm_ups_for(work, splits_backward, most, middle_s)) {
      best = std::move(*found);
      high_s = middle_s;
    } else {
      low_s = middle_s;
    }
  }
  return best;
}

}  // namespace dtfm::cost
