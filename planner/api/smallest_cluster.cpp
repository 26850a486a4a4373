#include "planner/api/smallest_cluster.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "planner/api/devices/canonical_topology.hpp"
#include "planner/api/devices/sub_topology.hpp"
#include "planner/api/plan.hpp"
#include "planner/cost/bounds/weighted_time_bound.hpp"
#include "planner/search/iteration_time/least_memory.hpp"

namespace dtfm::api {
namespace {

// Chosen by hand, for tens of seconds with 64 devices on two cores.
constexpr double max_combinations = 256;
constexpr int max_searches = 100;
constexpr std::size_t max_descents = 2, max_final_searches = 4;

/// Relative; sums of prices are rounded differently.
constexpr double weight_rounding = 1e-9;

/// How many devices of each kind.
using KindCounts = std::vector<int>;

struct DeviceKind {
  std::vector<int> devices;  // in canonical order, so host by host
  double weight = 1;         // of a device: USD/h, or 1
};

/// The result of a short search.
struct ClusterTrial {
  std::optional<Plan> plan = {};  // of the whole topology
  double iteration_s = infinity;
  double weight = 0;  // of the devices that the plan uses, or that were offered
  bool is_enough = false;
};

class ClusterSearch {
 public:
  explicit ClusterSearch(const PlanRequest& request)
      : request_(request), topology_(request.problem.topology), max_s_(request.question->max_iteration_s) {
    find_kinds();
  }

  PlanAnswer run() {
    SmallestCluster result;
    result.is_by_price = is_by_price_;
    result.max_iteration_s = max_s_;
    const KindCounts all = all_counts();
    const ClusterTrial& whole = try_counts(all);
    set_bound(result);
    // A short search that misses the limit on all devices may meet it on fewer.
    if (whole.plan) result.is_exhaustive = can_enumerate() ? enumerate(result.lower_bound) : descend();
    PlanAnswer answer = final_plan(result);
    for (const auto& [counts, trial] : ranked_trials()) result.tried.push_back(tried(counts, trial));
    answer.smallest_cluster = std::move(result);
    return answer;
  }

 private:
  void find_kinds() {
    for (int device = 0; device < topology_.size(); ++device)
      is_by_price_ = is_by_price_ && price_of(topology_, device).has_value();
    std::map<std::tuple<int, int, double, double>, std::size_t> known;
    for (const int device : canonical_order(topology_)) {
      const Device& it = topology_.devices[at(device)];
      const double weight = is_by_price_ ? price_of(topology_, device)->value() : 1;
      const auto [position, is_new] =
          known.emplace(std::tuple(it.site, it.gpu, it.speed, weight), kinds_.size());
      if (is_new) kinds_.push_back({{}, weight});
      kinds_[position->second].devices.push_back(device);
    }
  }

  KindCounts all_counts() const {
    KindCounts counts;
    for (const DeviceKind& it : kinds_) counts.push_back(static_cast<int>(it.devices.size()));
    return counts;
  }
  double weight_of(const KindCounts& counts) const {
    double sum = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) sum += counts[i] * kinds_[i].weight;
    return sum;
  }
  double weight_of(const Plan& plan) const {
    double sum = 0;
    for (const int device : pipeline_major(plan))
      sum += is_by_price_ ? price_of(topology_, device)->value() : 1;
    return sum;
  }
  std::vector<int> devices_of(const KindCounts& counts) const {
    std::vector<int> devices;
    for (std::size_t i = 0; i < counts.size(); ++i)
      devices.insert(devices.end(), kinds_[i].devices.begin(), kinds_[i].devices.begin() + counts[i]);
    std::sort(devices.begin(), devices.end());
    return devices;
  }
  KindCounts counts_of(const std::vector<int>& devices) const {
    KindCounts counts(kinds_.size());
    for (std::size_t i = 0; i < kinds_.size(); ++i)
      for (const int device : kinds_[i].devices)
        counts[i] += std::find(devices.begin(), devices.end(), device) != devices.end() ? 1 : 0;
    return counts;
  }

  /// The request on these devices.
  PlanRequest on(const SubTopology& part) const {
    PlanRequest request = request_;
    request.question.reset();
    request.problem.topology = Shared<Topology>(part.topology);
    request.options.common.ranks = nullptr;  // every rank plans alone
    return request;
  }

  const ClusterTrial& try_counts(const KindCounts& counts) {
    const auto [position, is_new] = trials_.try_emplace(counts);
    ClusterTrial& trial = position->second;
    if (!is_new) return trial;
    trial.weight = weight_of(counts);
    const std::vector<int> devices = devices_of(counts);
    if (devices.empty()) return trial;
    const SubTopology part = sub_topology(topology_, devices);
    const PlanRequest request = on(part);
    search::IterationSearchOptions options = request.options;
    options.common.evaluations = search::min_evaluations;
    options.common.time_limit.reset();
    options.common.on_progress = {};
    options.finalists = 1;
    options.only_fits = !max_s_;
    try {
      const search::IterationSearchResult found = search::search_iteration(request.problem, options);
      const search::PlanCandidate& best = found.finalists.front();
      if (best.deficit_bytes > 0) return trial;
      trial.plan = renumber_devices(best.plan, part.whole);
      trial.iteration_s = best.iteration_s;
      trial.weight = weight_of(*trial.plan);
      trial.is_enough = !max_s_ || best.iteration_s <= *max_s_;
      if (!whole_) whole_ = {best.job, part.whole};
    } catch (const search::NoSuchShape&) {  // too few devices
    } catch (const Error&) {
      if (trials_.size() == 1) throw;  // of all devices: the request is wrong
    }
    return trial;
  }

  void set_bound(SmallestCluster& result) const {
    const int fewest = search::min_fitting_devices(request_.problem, request_.options.limits);
    std::vector<double> weights;
    for (const DeviceKind& it : kinds_) weights.insert(weights.end(), it.devices.size(), it.weight);
    std::sort(weights.begin(), weights.end());
    const auto needed = std::min(weights.size(), at(fewest));
    result.lower_bound =
        std::accumulate(weights.begin(), weights.begin() + static_cast<std::ptrdiff_t>(needed), 0.0);
    result.bound_method = "no plan fits in the memory of fewer devices";
    if (const double by_bytes = least_price_of_bytes(); is_by_price_ && by_bytes > result.lower_bound) {
      result.lower_bound = by_bytes;
      result.bound_method = "cheaper sets of devices have too little memory in total";
    }
    if (!max_s_ || !whole_ || !request_.problem.job.automatic.is_empty()) return;
    std::vector<double> of_whole;
    for (const int device : whole_->devices)
      of_whole.push_back(is_by_price_ ? price_of(topology_, device)->value() : 1);
    double by_time = cost::min_weighted_time(whole_->job->model, of_whole, std::max(1, fewest)) / *max_s_;
    if (!is_by_price_) by_time = std::ceil(by_time * (1 - weight_rounding));
    if (by_time <= result.lower_bound) return;
    result.lower_bound = by_time;
    result.bound_method = "smaller clusters are too slow even without communication and idle time";
  }

  /// Of the bytes that every plan needs, as if parts of devices could be rented.
  double least_price_of_bytes() const {
    const double process_bytes = request_.problem.constants.process_memory_bytes;
    double missing = search::min_fitting_bytes(request_.problem, request_.options.limits);
    std::vector<std::pair<double, double>> offers;  // price per byte, bytes
    for (int device = 0; device < topology_.size(); ++device) {
      const int gpu = topology_.devices[at(device)].gpu;
      const auto price = price_of(topology_, device);
      if (gpu < 0 || !price) return 0;
      const double bytes = topology_.gpus[at(gpu)].memory.value() - process_bytes;
      if (bytes > 0) offers.emplace_back(price->value() / bytes, bytes);
    }
    std::sort(offers.begin(), offers.end());
    double price = 0;
    for (const auto& [per_byte, bytes] : offers) {
      const double taken = std::min(missing, bytes);
      price += taken * per_byte;
      missing -= taken;
    }
    return price;
  }

  bool can_enumerate() const {
    double combinations = 1;
    for (const DeviceKind& it : kinds_) combinations *= static_cast<double>(it.devices.size()) + 1;
    return combinations <= max_combinations;
  }

  /// Tries combinations, the cheapest first, until one is enough. Returns whether all of less were tried.
  bool enumerate(double lower_bound) {
    const KindCounts all = all_counts();
    std::vector<KindCounts> combinations = {KindCounts(all.size())};
    for (std::size_t kind = 0; kind < all.size(); ++kind) {
      const std::vector<KindCounts> shorter = combinations;
      for (int count = 1; count <= all[kind]; ++count)
        for (KindCounts it : shorter) {
          it[kind] = count;
          combinations.push_back(std::move(it));
        }
    }
    const auto rank = [&](const KindCounts& it) {
      return std::tuple(weight_of(it), std::accumulate(it.begin(), it.end(), 0), it);
    };
    std::sort(combinations.begin(), combinations.end(),
              [&](const KindCounts& a, const KindCounts& b) { return rank(a) < rank(b); });
    for (const KindCounts& it : combinations) {
      const double weight = weight_of(it);
      if (weight == 0 || weight < lower_bound * (1 - weight_rounding)) continue;
      if (is_stopped(request_.options.common)) return false;
      if (try_counts(it).is_enough) return true;
    }
    return false;
  }

  /// Leaves out devices of sets that are enough. Returns false.
  bool descend() {
    std::vector<KindCounts> sets;
    for (const std::vector<int>& it : device_sets(request_.problem)) sets.push_back(counts_of(it));
    std::stable_sort(sets.begin(), sets.end(),
                     [&](const KindCounts& a, const KindCounts& b) { return weight_of(a) < weight_of(b); });
    std::size_t starts = 0;
    for (const KindCounts& it : sets) {
      if (starts == max_descents || is_over()) break;
      if (!try_counts(it).is_enough) continue;
      ++starts;
      leave_out(it);
    }
    return false;
  }

  bool is_over() const {
    return is_stopped(request_.options.common) || static_cast<int>(trials_.size()) >= max_searches;
  }

  void leave_out(KindCounts counts) {
    std::vector<std::size_t> order(kinds_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return kinds_[a].weight > kinds_[b].weight; });
    for (bool has_changed = true; has_changed;) {
      has_changed = false;
      for (const std::size_t kind : order) {
        const int before = counts[kind];
        shrink(counts, kind);
        has_changed = has_changed || counts[kind] < before;
      }
    }
  }

  /// The least number of devices of a kind that is enough, by bisection: with more of them, a short search
  /// may miss what it finds with fewer, but rarely.
  void shrink(KindCounts& counts, std::size_t kind) {
    int low = -1, high = counts[kind];  // `high` is enough
    for (bool is_first = true; high - low > 1 && !is_over(); is_first = false) {
      KindCounts other = counts;
      other[kind] = is_first ? 0 : (low + high) / 2;
      (try_counts(other).is_enough ? high : low) = other[kind];
    }
    counts[kind] = high;
  }

  std::vector<std::pair<KindCounts, ClusterTrial>> ranked_trials() const {
    std::vector<std::pair<KindCounts, ClusterTrial>> ranked(trials_.begin(), trials_.end());
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
      return std::pair(a.second.weight, a.second.iteration_s) <
             std::pair(b.second.weight, b.second.iteration_s);
    });
    return ranked;
  }

  /// The plan of a search of full length on the cheapest devices that are still enough as simulated; if there
  /// are none, on all.
  PlanAnswer final_plan(SmallestCluster& result) {
    std::vector<KindCounts> enough;
    for (const auto& [counts, trial] : ranked_trials())
      if (trial.is_enough) enough.push_back(trial.plan ? counts_of(pipeline_major(*trial.plan)) : counts);
    enough.resize(std::min(enough.size(), max_final_searches));
    enough.push_back(all_counts());
    std::optional<PlanAnswer> answer;
    for (const KindCounts& it : enough) {
      answer = plan_on(it);
      const double seconds = answer->seconds.value_or(answer->estimate->iteration_s);
      result.is_met = answer->is_feasible() && (!max_s_ || seconds <= *max_s_);
      if (result.is_met || is_stopped(request_.options.common)) break;
      result.is_exhaustive = false;
    }
    result.value = weight_of(answer->plan);
    result.is_proven = result.is_met && result.value <= result.lower_bound * (1 + weight_rounding);
    return std::move(*answer);
  }

  /// The answer for the whole topology with a plan that is searched on a part.
  PlanAnswer plan_on(const KindCounts& counts) const {
    const SubTopology part = sub_topology(topology_, devices_of(counts));
    PlanAnswer of_part = plan(on(part));
    PlanRequest request = request_;
    request.question.reset();
    request.options.common.ranks = nullptr;
    PlanAnswer answer = score(request, {renumber_devices(of_part.plan, part.whole)});
    answer.is_given = false;
    answer.search = of_part.search;
    for (auto& [device, why] : answer.search->unusable) device = part.whole[at(device)];
    for (int& device : answer.search->unpriced) device = part.whole[at(device)];
    answer.shortage = of_part.shortage;
    return answer;
  }

  TriedCluster tried(const KindCounts& counts, const ClusterTrial& trial) const {
    TriedCluster it;
    const std::vector<int> devices = trial.plan ? pipeline_major(*trial.plan) : devices_of(counts);
    if (trial.plan) it.used = device_counts(topology_, *trial.plan);
    it.devices = static_cast<int>(devices.size());
    double usd = 0;
    bool is_priced = true;
    for (const int device : devices) {
      const auto price = price_of(topology_, device);
      is_priced = is_priced && price;
      if (price) usd += price->value();
    }
    if (is_priced) it.usd_per_hour = usd;
    it.iteration_s = trial.iteration_s;
    it.is_enough = trial.is_enough;
    return it;
  }

  struct Whole {
    std::shared_ptr<const search::DecidedJob> job;
    std::vector<int> devices;  // of the job's topology, in the whole one
  };

  const PlanRequest& request_;
  const Topology& topology_;
  std::optional<double> max_s_;
  bool is_by_price_ = true;
  std::vector<DeviceKind> kinds_;
  std::map<KindCounts, ClusterTrial> trials_;
  std::optional<Whole> whole_;
};

}  // namespace

PlanAnswer plan_smallest_cluster(const PlanRequest& request) {
  return ClusterSearch(request).run();
}

}  // namespace dtfm::api
