#include "planner/search/comm_cost/lower_bound.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "planner/search/comm_cost/composition_bound.hpp"
#include "planner/search/comm_cost/device_classes.hpp"

namespace dtfm::search {
namespace {

constexpr int most_classes = 24;             // the bound of one state looks at all pairs of classes
constexpr long long quick_effort = 100'000;  // continuations priced: some 0.1 s at 64 devices

/// Every device exchanges with the replicas − 1 nearest others at best; every hop into a group is at best the
/// fastest link of its slowest-linked member, and the k · replicas + 1 slowest-linked devices fill at least k
/// + 1 groups.
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
    // The rest of a row is of no interest, and rows of thousands are not sorted for it.
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

/// The finest clusters for which the compositions of a group stay below `most`.
int finest_cut(const cost::CommCostModel& model, long long most) {
  int classes = 1;
  while (classes < std::min(most_classes, model.devices()) &&
         count_compositions(model.replicas, classes + 1, most) <= most)
    ++classes;
  return classes;
}

/// Compositions are measured device by device, so their number shrinks with the devices.
long long most_compositions(const cost::CommCostModel& model, long long work) {
  return std::max(500LL, work / model.devices());
}

LowerBound named(const CompositionBound& bound, const DeviceClasses& classes, bool exact,
                 double upper_bound) {
  const bool closed = bound.complete && bound.value >= upper_bound;
  return {bound.value,
          fmt::format("{} over what groups are made of: {} {}",
                      closed ? "exhaustive search" : "best-first search", classes.count,
                      exact ? "classes of interchangeable devices" : "clusters of similar devices")};
}

}  // namespace

LowerBound quick_lower_bound(const cost::CommCostModel& model, double upper_bound,
                             const std::function<bool()>& stop) {
  LowerBound best = device_bound(model);
  best.value = std::min(best.value, upper_bound);
  if (model.stages == 1 || model.replicas == 1) return best;
  const long long most = most_compositions(model, 1'300'000);
  DeviceClasses classes = interchangeable_devices(model, stop);
  const bool exact =
      classes.count <= most_classes && count_compositions(model.replicas, classes.count, most) <= most;
  if (!exact) classes = cluster_devices(model, stop).cut(finest_cut(model, most));
  if (stop()) return best;
  const auto found = composition_bound(model, classes, upper_bound, quick_effort, stop);
  if (found.value > best.value) best = named(found, classes, exact, upper_bound);
  return best;
}

void prove_lower_bound(const cost::CommCostModel& model, double upper_bound, const std::function<bool()>& stop,
                       const std::function<void(LowerBound)>& found) {
  constexpr long long all_that_memory_holds = 1'000'000'000'000;
  const DeviceClasses exact = interchangeable_devices(model, stop);
  const Dendrogram tree = cluster_devices(model, stop);
  if (stop()) return;
  double best = 0;
  for (long long work = 1'300'000;; work *= 4) {
    const long long most = most_compositions(model, work);
    const bool is_exact =
        exact.count <= most_classes && count_compositions(model.replicas, exact.count, most) <= most;
    const DeviceClasses classes = is_exact ? exact : tree.cut(finest_cut(model, most));
    const long long effort = is_exact ? all_that_memory_holds : work;
    const auto bound = composition_bound(model, classes, upper_bound, effort, stop);
    if (bound.value > best) found(named(bound, classes, is_exact, upper_bound));
    best = std::max(best, bound.value);
    if (is_exact || bound.value >= upper_bound || stop() || most > 3'000'000) return;
  }
}

}  // namespace dtfm::search
