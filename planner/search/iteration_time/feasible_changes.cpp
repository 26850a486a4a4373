#include "planner/search/iteration_time/feasible_changes.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/settings.hpp"

namespace dtfm::search {
namespace {

/// Shape of the best plan of a short search, if that plan fits in memory.
std::optional<Shape> fitting_shape(const Problem& problem, IterationSearchOptions options) {
  options.common.evaluations = 1;     // initial solutions only
  options.common.time_limit.reset();  // keeps the answer deterministic
  options.common.on_progress = {};
  options.warm.reset();  // memory does not depend on the running plan
  options.finalists = 1;
  try {
    const IterationSearchResult result = search_iteration(problem, options);
    if (result.finalists.front().deficit_bytes > 0) return std::nullopt;
    return result.finalists.front().shape();
  } catch (const NoSuchShape&) {
    return std::nullopt;
  }
}

/// Minimum memory in GB, the same for all GPUs, with which a plan fits; exact to 1 GB.
std::optional<double> fitting_memory(Problem problem, const IterationSearchOptions& options) {
  constexpr double gigabyte = 1e9, most = 4096;
  const auto fits = [&](double gigabytes) {
    for (Gpu& gpu : problem.topology.edit().gpus) gpu.memory = Bytes(gigabytes * gigabyte);
    return fitting_shape(problem, options).has_value();
  };
  if (!fits(most)) return std::nullopt;
  double low = 0, high = most;
  while (high - low > 1) (fits((low + high) / 2) ? high : low) = (low + high) / 2;
  return std::ceil(high);
}

}  // namespace

Settings smaller_settings(const Job& job) {
  Settings all;
  const auto add_if_allowed = [&](Setting setting, const SettingValue& value) {
    if (is_choice(job, setting, value)) all.emplace_back(setting, value);
  };
  if (job.execution.recomputation != Recomputation::full)
    add_if_allowed(Setting::recompute, name_of(Recomputation::full));
  if (job.execution.recompute_layers) all.emplace_back(Setting::recompute_layers, layer_count(job.model));
  if (job.execution.micro_batch > 1) all.emplace_back(Setting::micro_batch, 1);
  if (traits(job.execution.schedule).forwards_first)
    add_if_allowed(Setting::schedule, name_of(Schedule::one_f_one_b));
  if (job.training.optimizer != Optimizer::host_offload && !job.target)
    all.emplace_back(Setting::optimizer, name_of(Optimizer::host_offload));
  return all;
}

Settings smaller_together(const Settings& smaller) {
  Settings together;
  for (const Setting it : {Setting::recompute, Setting::optimizer, Setting::micro_batch}) {
    const auto found =
        std::find_if(smaller.begin(), smaller.end(), [&](const auto& other) { return other.first == it; });
    if (found != smaller.end())
      together.push_back(*found);
    else if (it != Setting::micro_batch)
      return {};
  }
  return together;
}

std::vector<FeasibleChange> feasible_changes(const Problem& problem, const IterationSearchOptions& options) {
  using Kind = FeasibleChange::Kind;
  std::vector<FeasibleChange> changes;
  const auto try_settings = [&](const Settings& settings) {
    Problem other = problem;
    for (const auto& [setting, value] : settings) traits(setting).set(other.job, value);
    try {
      if (fitting_shape(other, options)) changes.push_back({Kind::settings, {}, settings});
    } catch (const Error&) {  // the degrees of the job do not allow these values
    }
  };
  if (options.limits.stages || options.limits.replicas) {
    IterationSearchOptions free = options;
    free.limits = {};
    if (const auto shape = fitting_shape(problem, free)) changes.push_back({Kind::shape, *shape});
  }
  const Settings smaller = smaller_settings(problem.job);
  for (const auto& it : smaller) try_settings({it});
  if (const Settings together = smaller_together(smaller); changes.empty() && !together.empty())
    try_settings(together);
  if (const auto memory = fitting_memory(problem, options))
    changes.push_back({Kind::memory, {}, {}, *memory});
  return is_stopped(options.common) ? std::vector<FeasibleChange>() : changes;
}

}  // namespace dtfm::search
