#include "planner/search/iteration_time/feasible_changes.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/cluster/more_hosts.hpp"
#include "core/plan/settings.hpp"

namespace dtfm::search {
namespace {

using Kind = FeasibleChange::Kind;
using SettingValues = std::vector<std::pair<Setting, SettingValue>>;

// Chosen by hand.
constexpr int max_devices = 512;           // with more hosts: a search takes longer with more
constexpr int min_max_hosts = 32;          // more hosts, at most; or as many as the topology has
constexpr std::size_t max_host_kinds = 3;  // those with most memory are tried
constexpr double max_gigabytes = 4096;

/// The best plan of a short search, if it fits in memory. A search without limits begins in the same way, so
/// it finds a plan that fits, too.
std::optional<PlanCandidate> fitting_plan(const Problem& problem, IterationSearchOptions options) {
  options.common.evaluations = min_evaluations;
  options.common.time_limit.reset();  // keeps the answer deterministic
  options.common.on_progress = {};
  options.warm.reset();  // memory does not depend on the running plan
  options.keeps_pareto_front = false;
  options.finalists = 1;
  options.only_fits = true;
  try {
    IterationSearchResult result = search_iteration(problem, options);
    if (result.finalists.front().deficit_bytes > 0) return std::nullopt;
    return std::move(result.finalists.front());
  } catch (const Error&) {  // no such shape, or the degrees of the job do not allow these values
    return std::nullopt;
  }
}

/// Settings that memory depends on, those that cost least first. The value is what needs least memory; none
/// if that depends on the job.
struct MemorySetting {
  Setting setting;
  std::optional<SettingValue> least = {};
};
std::vector<MemorySetting> memory_settings(const Job& job) {
  return {{Setting::recompute, name_of(Recomputation::full)},
          {Setting::recompute_layers, layer_count(job.model)},
          {Setting::micro_batch, 1},
          {Setting::flush},
          {Setting::schedule},
          {Setting::optimizer_sharding},
          {Setting::tensor}};
}

class ChangeSearch {
 public:
  ChangeSearch(const Problem& problem, const IterationSearchOptions& options)
      : problem_(problem), options_(options) {}

  std::vector<FeasibleChange> run(const std::optional<Job>& untargeted) {
    free_shape();
    change_settings();
    if (untargeted) drop_target(*untargeted);
    change_optimizer();
    if (!add_hosts()) add_memory();
    return is_stopped(options_.common) ? std::vector<FeasibleChange>() : changes_;
  }

 private:
  Problem with(const SettingValues& settings) const {
    Problem other = problem_;
    for (const auto& [setting, value] : settings) set(other.job, setting, value);
    return other;
  }
  static void set(Job& job, Setting setting, const SettingValue& value) {
    traits(setting).set(job, value);
    job.automatic[setting] = false;
    job.listed.erase(setting);
  }
  bool fits(const SettingValues& settings) const {
    return !is_stopped(options_.common) && fitting_plan(with(settings), options_);
  }

  void free_shape() {
    const bool has_stages = options_.limits.stages.has_value(),
               has_replicas = options_.limits.replicas.has_value();
    const auto try_free = [&](bool stages, bool replicas) {
      IterationSearchOptions free = options_;
      if (stages) free.limits.stages.reset();
      if (replicas) free.limits.replicas.reset();
      const auto found = fitting_plan(problem_, free);
      if (found) changes_.push_back({Kind::shape, stages, replicas, found->shape()});
      return found.has_value();
    };
    bool is_enough = has_stages && try_free(true, false);
    is_enough = (has_replicas && try_free(false, true)) || is_enough;
    if (has_stages && has_replicas && !is_enough) try_free(true, true);
  }

  /// The setting with a value that may need less memory; nothing if the job leaves it open already.
  void open(Job& job, const MemorySetting& it) const {
    if (job.automatic[it.setting] && listed_values(job, it.setting).empty()) return;
    if (it.least && is_choice(problem_.job, it.setting, *it.least)) return set(job, it.setting, *it.least);
    if (it.setting == Setting::flush) {
      job.execution.flush.reset();
    } else if (traits(it.setting).may_be_auto) {
      job.automatic[it.setting] = true;
      job.listed.erase(it.setting);
    }
  }

  /// What the plan has instead of what the job fixes.
  SettingValues changed_in(const PlanCandidate& found, const std::vector<MemorySetting>& tried) const {
    SettingValues changed;
    Job decided = found.job->problem.job;
    decided.execution = found.plan.execution;
    for (const MemorySetting& it : tried) {
      const SettingValue value = traits(it.setting).get(decided);
      const bool has_changed = !allows(problem_.job, it.setting, value);
      if (!is_none(value) && has_changed) changed.emplace_back(it.setting, value);
      if (it.setting == Setting::schedule && has_changed)
        if (const SettingValue chunks = traits(Setting::chunks).get(decided); !is_none(chunks))
          changed.emplace_back(Setting::chunks, chunks);
    }
    return changed;
  }

  /// The values with which a plan fits if these settings are open, and others have the values of `fixed`.
  std::optional<SettingValues> values_of(const std::vector<MemorySetting>& tried,
                                         const SettingValues& fixed) const {
    Problem other = with(fixed);
    for (const MemorySetting& it : tried) open(other.job, it);
    if (is_stopped(options_.common)) return std::nullopt;
    const auto found = fitting_plan(other, options_);
    if (!found) return std::nullopt;
    SettingValues values = changed_in(*found, tried);
    if (values.empty()) return std::nullopt;
    values.insert(values.end(), fixed.begin(), fixed.end());
    if (!fits(values)) return std::nullopt;
    return values;
  }

  /// As few settings as possible: each is left out if the others are enough.
  std::optional<SettingValues> fewest_of(std::vector<MemorySetting> tried, const SettingValues& fixed) const {
    std::optional<SettingValues> best = values_of(tried, fixed);
    for (std::size_t i = tried.size(); best && i-- > 0 && tried.size() > 1;) {
      std::vector<MemorySetting> fewer = tried;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      if (auto values = values_of(fewer, fixed)) {
        best = std::move(values);
        tried = std::move(fewer);
      }
    }
    return best;
  }

  std::vector<MemorySetting> fixed_settings() const {
    std::vector<MemorySetting> fixed;
    for (const MemorySetting& it : memory_settings(problem_.job)) {
      Job other = problem_.job;
      open(other, it);
      const bool is_changed = other.automatic != problem_.job.automatic ||
                              traits(it.setting).get(other) != traits(it.setting).get(problem_.job);
      const bool has_effect =
          it.setting != Setting::recompute_layers || problem_.job.execution.recompute_layers;
      if (is_changed && has_effect) fixed.push_back(it);
    }
    return fixed;
  }

  void change_settings() {
    const std::size_t before = changes_.size();
    const std::vector<MemorySetting> all = fixed_settings();
    for (const MemorySetting& it : all) add_settings(values_of({it}, {}));
    if (changes_.size() == before && all.size() > 1) add_settings(fewest_of(all, {}));
  }

  void change_optimizer() {
    const Job& job = problem_.job;
    if (job.training.optimizer == Optimizer::host_offload || job.target) return;
    const SettingValues offload = {{Setting::optimizer, name_of(Optimizer::host_offload)}};
    if (fits(offload))
      changes_.push_back({.kind = Kind::settings, .settings = offload});
    else if (changes_.empty())
      add_settings(fewest_of(fixed_settings(), offload));
  }

  void add_settings(const std::optional<SettingValues>& values) {
    if (values) changes_.push_back({.kind = Kind::settings, .settings = *values});
  }

  void drop_target(const Job& untargeted) {
    Problem other = problem_;
    other.job = untargeted;
    if (fitting_plan(other, options_)) changes_.push_back({.kind = Kind::target});
  }

  /// A device of each kind of host, those with most memory first.
  std::vector<int> host_kinds() const {
    const Topology& topology = problem_.topology;
    std::map<int, std::vector<int>> hosts;  // devices
    for (int device = 0; device < topology.size(); ++device)
      if (topology.devices[at(device)].gpu >= 0) hosts[topology.devices[at(device)].host].push_back(device);
    std::map<std::vector<int>, int> kinds;  // by site and GPUs
    for (const auto& [host, devices] : hosts) {
      std::vector<int> key = {topology.devices[at(devices.front())].site};
      for (const int device : devices) key.push_back(topology.devices[at(device)].gpu);
      std::sort(key.begin() + 1, key.end());
      kinds.emplace(std::move(key), devices.front());
    }
    std::vector<std::pair<double, int>> ranked;
    for (const auto& [key, device] : kinds) {
      double bytes = 0;
      for (std::size_t i = 1; i < key.size(); ++i) bytes += topology.gpus[at(key[i])].memory.value();
      ranked.emplace_back(-bytes, device);
    }
    std::stable_sort(ranked.begin(), ranked.end());
    std::vector<int> result;
    for (const auto& [bytes, device] : ranked)
      if (result.size() < max_host_kinds) result.push_back(device);
    return result;
  }

  /// The smallest number of more hosts like that of `device` with which a plan fits, if it is below `limit`.
  std::optional<int> hosts_needed(int device, int limit) const {
    const Topology& topology = problem_.topology;
    const int size = static_cast<int>(host_devices(topology, device).size());
    const auto does_fit = [&](int hosts) {
      Problem other = problem_;
      other.topology.edit() = with_more_hosts(topology, device, hosts);
      return !is_stopped(options_.common) && fitting_plan(other, options_);
    };
    const int most = std::min(
        {limit - 1, std::max(min_max_hosts, topology.size() / size), (max_devices - topology.size()) / size});
    int low = 0, high = 1;
    while (high <= most && !does_fit(high)) {
      low = high;
      high = high < most ? std::min(2 * high, most) : most + 1;
    }
    if (high > most) return std::nullopt;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (does_fit(middle) ? high : low) = middle;
    }
    return high;
  }

  bool add_hosts() {
    if (problem_.topology->size() == 1) return false;  // it has no links that others could have
    FeasibleChange fewest{.kind = Kind::hosts, .hosts = max_devices + 1};
    for (const int device : host_kinds())
      if (const auto hosts = hosts_needed(device, fewest.hosts)) {
        fewest.hosts = *hosts;
        fewest.like = device;
      }
    if (fewest.like == no_index) return false;
    changes_.push_back(fewest);
    return true;
  }

  /// The same memory for all GPUs; exact to 1 GB.
  void add_memory() {
    Problem other = problem_;
    const auto does_fit = [&](double gigabytes) {
      constexpr double gigabyte = 1e9;
      for (Gpu& gpu : other.topology.edit().gpus) gpu.memory = Bytes(gigabytes * gigabyte);
      return !is_stopped(options_.common) && fitting_plan(other, options_);
    };
    double low = 0, high = max_gigabytes;
    if (!does_fit(high)) return;
    while (high - low > 1) {
      const double middle = std::floor((low + high) / 2);
      (does_fit(middle) ? high : low) = middle;
    }
    changes_.push_back({.kind = Kind::memory, .gigabytes = high});
  }

  const Problem& problem_;
  const IterationSearchOptions& options_;
  std::vector<FeasibleChange> changes_;
};

}  // namespace

std::vector<FeasibleChange> feasible_changes(const Problem& problem, const IterationSearchOptions& options,
                                             const std::optional<Job>& untargeted) {
  return ChangeSearch(problem, options).run(untargeted);
}

}  // namespace dtfm::search
