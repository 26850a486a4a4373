#include "planner/cost/bounds/device_group_bound.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include "core/base/infinity.hpp"
#include "planner/cost/bounds/concave_majorant.hpp"
#include "planner/cost/bounds/pipeline_capacity.hpp"
#include "planner/cost/bounds/sync_traffic_bound.hpp"
#include "planner/cost/iteration_time/gradient_sync_time.hpp"

namespace dtfm::cost {
namespace {

/// With more devices or groups the bound would take several seconds, so it leaves groups out.
constexpr std::size_t max_grouped_devices = 100, max_groups = 16;
/// Steps in which the share of a group in the pipelines across groups is rounded.
constexpr int share_steps = 4;

using Devices = std::vector<int>;

std::vector<Devices> groups_by(const Devices& devices, const std::function<int(int)>& group_of) {
  std::map<int, Devices> groups;
  for (const int device : devices) groups[group_of(device)].push_back(device);
  std::vector<Devices> result;
  for (auto& [number, members] : groups) result.push_back(std::move(members));
  return result;
}

/// Sites, or hosts of a single site.
std::vector<Devices> groups_of(const BoundInputs& in) {
  const std::vector<Device>& all = in.model.problem.topology->devices;
  std::vector<Devices> groups = groups_by(in.devices, [&](int device) { return all[at(device)].site; });
  if (groups.size() == 1) groups = groups_by(in.devices, [&](int device) { return all[at(device)].host; });
  return groups;
}

struct GroupTraffic {
  int devices = 0;
  SyncTrafficBound traffic;       // of each of them
  double outside_s_per_byte = 0;  // until a device has exchanged bytes with devices of other groups
};

struct GroupedDevices {
  std::vector<GroupTraffic> groups;
  PipelineCosts crossing;  // the hops of pipelines on devices of several groups
};

GroupedDevices device_groups(const BoundInputs& in) {
  const std::vector<Devices> groups = groups_of(in);
  const HopBound hop = min_hop_between(in.model, groups);
  GroupedDevices result{{}, {{}, 0, hop.total_s, hop.busy_s}};
  for (const Devices& group : groups) {
    Devices others;
    std::set_difference(in.devices.begin(), in.devices.end(), group.begin(), group.end(),
                        std::back_inserter(others));
    result.groups.push_back({static_cast<int>(group.size()), SyncTrafficBound(in.model, in.devices, group),
                             SyncTrafficBound(in.model, others, group).total_s()});
  }
  return result;
}

/// For the pipelines inside a group, by their number minus 1, and by step of the group's share in those
/// across groups: the most micro-batches as a function of the depth; and their profit at some price.
using GroupCounts = std::vector<std::vector<ConcaveMajorant>>;
using GroupProfits = std::vector<std::vector<double>>;

GroupProfits profits_of(const GroupCounts& counts, int devices, double price) {
  GroupProfits profits;
  for (const std::vector<ConcaveMajorant>& of_number : counts) {
    const int pipelines = static_cast<int>(profits.size()) + 1;
    profits.emplace_back();
    for (const ConcaveMajorant& it : of_number)
      profits.back().push_back(it.max_profit(pipelines, devices, price));
  }
  return profits;
}

/// The largest sum of profits of all groups if they have so many pipelines together, and `share_steps` steps.
double max_profit(const std::vector<GroupProfits>& groups, int pipelines) {
  // By number of pipelines, and of steps, in the groups so far.
  std::vector<std::vector<double>> best(at(pipelines + 1),
                                        std::vector<double>(at(share_steps + 1), -infinity));
  std::fill(best[0].begin(), best[0].end(), 0.0);
  for (const GroupProfits& profits : groups)
    for (int all = pipelines; all > 0; --all)
      for (int own = 1; own <= std::min(all, static_cast<int>(profits.size())); ++own) {
        const std::vector<double>&others = best[at(all - own)], &of_steps = profits[at(own - 1)];
        for (std::size_t used = 0; used <= at(share_steps); ++used)
          for (std::size_t step = 0; step <= used && step < of_steps.size(); ++step)
            best[at(all)][used] = std::max(best[at(all)][used], others[used - step] + of_steps[step]);
      }
  return best.back().back();
}

/// Whether the convex function is at least `limit` in [0, max]. `start` is where it may be smaller; becomes
/// the place of its least value so far. If the search is not precise enough, the function is taken to stay
/// above, which only makes the bound lower.
template <class Function>
bool stays_above(double limit, const Function& function, double max, double& start) {
  constexpr double precision = 1e-4;
  double low = 0, high = max;
  if (function(start) < limit) return false;
  while (high - low > precision * high) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    const double at_a = function(a), at_b = function(b);
    start = at_a < at_b ? a : b;
    if (std::min(at_a, at_b) < limit) return false;
    (at_a < at_b ? high : low) = at_a < at_b ? b : a;
  }
  return true;
}

/// By group, and by the number of other replicas that a layer may have there: least seconds per byte for
/// which a device of the group synchronizes its gradients.
std::vector<std::vector<double>> group_syncs(const std::vector<GroupTraffic>& groups, int replicas) {
  std::vector<std::vector<double>> result;
  for (const GroupTraffic& group : groups) {
    std::vector<double>& of_group = result.emplace_back();
    for (int inside = 0; inside < std::min(group.devices, replicas); ++inside)
      of_group.push_back(replicas < 2 ? 0 : 2 * group.traffic.to_each_s(replicas - 1, inside) / replicas);
  }
  return result;
}

/// The most micro-batches of a pipeline whose devices synchronize for `sync_s` in total: the sum
/// over all stages of what pipeline_capacity.cpp says. Under gpipe a stage starts its last backward pass
/// after all forward passes.
double balanced_micro_batches(const BoundInputs& in, int stages, double sync_s, double limit_s) {
  double device_s = stages * limit_s - sync_s, first = 0;
  if (traits(in.model.schedule).forwards_first) {
    device_s -= stages * in.layer_times.forward.sum_s + in.layer_times.backward.sum_s;
    first = 1;
  }
  if (device_s < 0) return 0;
  return std::min<double>(in.micro_batches,
                          first + std::floor(device_s / in.layer_times.forward_backward.sum_s + 1e-6));
}

/// Whether all micro-batches may be finished within `limit_s` by `replicas` pipelines, with or without
/// micro-batches: r(g) of them on devices of group g alone, and x across groups, which have a hop between
/// groups.
///
/// A layer l has r(g) + x(g, l) replicas in g, where the x(g, l) of all groups sum to x, as do their means
/// y(g) over all layers, weighted by gradient bytes. A device of g synchronizes with replicas of other groups
/// for all but r(g) + x(g, l) ≤ r(g) + x of all replicas. So pipelines inside g complete no more than with
/// r(g) + x replicas there, and no more than if their devices spend the rest of the time in which they send,
/// in total, all but r(g) + y(g) of all shards of the gradients to other groups.
///
/// With a price p ≥ 0 for each of all n devices, the pipelines complete at most p n micro-batches and what
/// each kind of them adds beyond the price of its devices. The best r(g) and y(g), rounded up to steps, are
/// found by dynamic programming for every x, and the p with the least such bound by ternary search, because
/// the bound is convex in p.
bool may_finish(const BoundInputs& in, const GroupedDevices& groups,
                const std::vector<std::vector<double>>& syncs, const PlanLimits& limits, int replicas,
                double limit_s) {
  const int devices = static_cast<int>(in.devices.size());
  std::map<std::pair<double, int>, std::vector<double>> known;  // by seconds per byte and largest depth
  const auto counts = [&](double sync, int max_depth, bool crosses) -> const std::vector<double>& {
    const auto [it, is_new] = known.try_emplace({sync, crosses ? 0 : max_depth});
    if (!is_new) return it->second;
    PipelineCosts costs = in.syncs[at(replicas)];
    if (crosses) costs.hop_s = groups.crossing.hop_s, costs.hop_busy_s = groups.crossing.hop_busy_s;
    costs.sync.seconds_per_byte = std::max(costs.sync.seconds_per_byte, sync);
    return it->second = max_micro_batches_by_depth(in, costs, crosses ? 2 : 1, max_depth, limits, limit_s);
  };
  int min_depth =
      limits.stages.value_or(1);  // even without micro-batches a pipeline holds the state of all layers
  while (min_depth < in.max_stages && !in.memory.has(in.memory.state, min_depth)) ++min_depth;
  double price = 0;  // the best one for the last x is often good enough for the next
  for (int crossing = 0; crossing <= replicas; ++crossing) {
    const int inside = replicas - crossing;
    std::vector<GroupCounts> in_groups;
    double crossing_sync = infinity, max_price = 0;
    for (std::size_t i = 0; i < groups.groups.size(); ++i) {
      const GroupTraffic& group = groups.groups[i];
      const auto with_others = [&](int others) {
        return syncs[i][std::min(at(others), syncs[i].size() - 1)];
      };
      GroupCounts& of_group = in_groups.emplace_back();
      const int most = std::min(inside, group.devices);
      for (int own = 1; own <= most; ++own) {
        std::vector<ConcaveMajorant>& of_number = of_group.emplace_back();
        const std::vector<double>& unshared = counts(with_others(own - 1 + crossing), group.devices, false);
        for (int step = 0; step < (crossing > 0 ? share_steps : 1); ++step) {
          const double share = static_cast<double>((step + 1) * crossing) / share_steps;
          const double sync_s = 2 * std::max(0.0, replicas - own - share) / replicas *
                                in.gradients_before.back() * group.outside_s_per_byte;
          std::vector<double> most_batches = unshared;
          for (std::size_t depth = 1; depth <= unshared.size(); ++depth)
            most_batches[depth - 1] = std::min(
                unshared[depth - 1], balanced_micro_batches(in, static_cast<int>(depth), sync_s, limit_s));
          of_number.emplace_back(most_batches, min_depth);
          max_price = std::max(max_price, of_number.back().max_price());
        }
      }
      if (crossing > 0) crossing_sync = std::min(crossing_sync, with_others(most + crossing - 1));
    }
    const ConcaveMajorant across(counts(crossing_sync, devices, true), std::max(2, min_depth));
    const auto most_at = [&](double device_price) {
      std::vector<GroupProfits> profits;
      for (std::size_t i = 0; i < groups.groups.size(); ++i)
        profits.push_back(profits_of(in_groups[i], groups.groups[i].devices, device_price));
      return device_price * devices + max_profit(profits, inside) +
             across.max_profit(crossing, devices, device_price);
    };
    if (stays_above(in.micro_batches - 1e-6, most_at, std::max(max_price, across.max_price()), price))
      return true;
  }
  return false;
}

}  // namespace

/// Groups matter where devices synchronize with all replicas after their last backward pass.
bool can_group_devices(const BoundInputs& in) {
  const IterationModel& model = in.model;
  if (sync_pattern(model.sync).traffic != SyncPattern::Traffic::to_each ||
      model.problem.job.execution.overlap || model.chunks > 1 || model.stages.devices() > 1 ||
      model.sharding.gradients || in.devices.size() > max_grouped_devices)
    return false;
  const std::size_t groups = groups_of(in).size();
  return groups > 1 && groups <= max_groups;
}

double device_group_bound_s(const BoundInputs& in, const PlanLimits& limits, std::vector<double>& least_s) {
  constexpr double precision = 1e-6, give_up = 100;
  const GroupedDevices groups = device_groups(in);
  std::vector<int> numbers;
  for (int n = limits.replicas.value_or(1);
       n <= limits.replicas.value_or(in.slots / limits.stages.value_or(1)); ++n)
    if (in.memory.has(n * in.memory.state, in.slots)) numbers.push_back(n);
  // The most promising number comes first, so that most others need only one check.
  const auto promise = [&](int n) { return at(n) <= least_s.size() ? least_s[at(n - 1)] : infinity; };
  std::stable_sort(numbers.begin(), numbers.end(), [&](int a, int b) { return promise(a) < promise(b); });
  double least = infinity;
  try {
    for (const int n : numbers) {
      // With n pipelines, with micro-batches or without, earlier bounds prove the least of the first n
      // values.
      double low = *std::min_element(least_s.begin(),
                                     least_s.begin() + std::min<std::ptrdiff_t>(n, std::ssize(least_s)));
      if (low >= least) continue;
      const std::vector<std::vector<double>> syncs = group_syncs(groups.groups, n);
      const auto is_feasible = [&](double limit_s) {
        return may_finish(in, groups, syncs, limits, n, limit_s);
      };
      double high = std::isfinite(least) ? least : 1.1 * low;
      if (std::isfinite(least) && !is_feasible(least)) continue;
      if (!std::isfinite(least))
        while (high < give_up * low && !is_feasible(high)) high *= 1.1;
      while (high - low > precision * high) {
        const double middle = (low + high) / 2;
        (is_feasible(middle) ? high : low) = middle;
      }
      least = low;
    }
  } catch (const WorkStopped&) {
    return 0;  // the other bounds are valid, too
  }
  return least;
}

}  // namespace dtfm::cost
