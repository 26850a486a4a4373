#include "planner/search/comm_cost/lower_bound.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "planner/search/comm_cost/composition_bound.hpp"
#include "planner/search/comm_cost/device_classes.hpp"

namespace dtfm::search {
namespace {

constexpr int max_classes = 24;              // bounding one state takes all pairs of classes
constexpr long long quick_effort = 100'000;  // evaluated continuations: about 0.1 s at 64 devices

/// At best every device synchronizes with its replicas − 1 nearest peers, and every hop into a group is the
/// fastest link of its slowest-linked member. The k · replicas + 1 slowest-linked devices occupy at least k +
/// 1 groups.
LowerBound device_bound(const cost::CommCostModel& model) {
  const int n = model.devices();
  double sync = 0;
  std::vector<double> fastest_hop, row;
  for (int device = 0; device < n; ++device) {
    row.clear();
    double hop = n > 1 ? model.hop(device == 0 ? 1 : 0, device) : 0;
    for (int peer = 0; peer < n; ++peer) {
      if (peer == device) continue;
      row.push_back(model.sync(peer, device));
      hop = std::min(hop, model.hop(peer, device));
    }
    // Only the smallest elements matter, so rows of thousands are not sorted completely.
    if (model.replicas < model.devices())
      std::nth_element(row.begin(), row.begin() + (model.replicas - 1), row.end());
    std::sort(row.begin(), row.begin() + (model.replicas - 1));
    sync = std::max(sync, std::accumulate(row.begin(), row.begin() + (model.replicas - 1), 0.0));
    fastest_hop.push_back(hop);
  }
  std::sort(fastest_hop.begin(), fastest_hop.end(), std::greater<>());
  double path = 0;
  for (int stage = 0; stage + 1 < model.stages; ++stage)
    path += fastest_hop[static_cast<std::size_t>(stage) * static_cast<std::size_t>(model.replicas)];
  return {(sync + path) * (1 - 1e-12), "fastest links of every device"};
}

/// Number of clusters, as large as possible with at most `limit` compositions of a group.
int finest_cut(const cost::CommCostModel& model, long long limit) {
  int classes = 1;
  while (classes < std::min(max_classes, model.devices()) &&
         count_compositions(model.replicas, classes + 1, limit) <= limit)
    ++classes;
  return classes;
}

/// Each composition is measured device by device, so more devices allow fewer compositions.
long long max_compositions(const cost::CommCostModel& model, long long work) {
  return std::max(500LL, work / model.devices());
}

LowerBound describe(const CompositionBound& bound, const DeviceClasses& classes, bool exact,
                    double upper_bound) {
  const bool closed = bound.complete && bound.value >= upper_bound;
  return {bound.value,
          fmt::format("{} over group compositions of {} {}",
                      closed ? "exhaustive search" : "best-first search", classes.count,
                      exact ? "classes of interchangeable devices" : "clusters of similar devices")};
}

}  // namespace

LowerBound quick_lower_bound(const cost::CommCostModel& model, double upper_bound, const StopFunction& stop) {
  LowerBound best = device_bound(model);
  best.value = std::min(best.value, upper_bound);
  if (model.stages == 1 || model.replicas == 1) return best;
  const long long limit = max_compositions(model, 1'300'000);
  DeviceClasses classes = interchangeable_devices(model, stop);
  const bool exact =
      classes.count <= max_classes && count_compositions(model.replicas, classes.count, limit) <= limit;
  if (!exact) classes = cluster_devices(model, stop).cut(finest_cut(model, limit));
  if (stop()) return best;
  const auto found = composition_bound(model, classes, upper_bound, quick_effort, stop);
  if (found.value > best.value) best = describe(found, classes, exact, upper_bound);
  return best;
}

void prove_lower_bound(const cost::CommCostModel& model, double upper_bound, const StopFunction& stop,
                       const std::function<void(LowerBound)>& found) {
  constexpr long long all_that_memory_holds = 1'000'000'000'000;
  const DeviceClasses exact = interchangeable_devices(model, stop);
  const Dendrogram tree = cluster_devices(model, stop);
  if (stop()) return;
  double best = 0;
  for (long long work = 1'300'000;; work *= 4) {
    const long long limit = max_compositions(model, work);
    const bool is_exact =
        exact.count <= max_classes && count_compositions(model.replicas, exact.count, limit) <= limit;
    const DeviceClasses classes = is_exact ? exact : tree.cut(finest_cut(model, limit));
    const long long effort = is_exact ? all_that_memory_holds : work;
    const auto bound = composition_bound(model, classes, upper_bound, effort, stop);
    if (bound.value > best) found(describe(bound, classes, is_exact, upper_bound));
    best = std::max(best, bound.value);
    if (is_exact || bound.value >= upper_bound || stop() || limit > 3'000'000) return;
  }
}

}  // namespace dtfm::search
