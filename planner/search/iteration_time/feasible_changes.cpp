#include "planner/search/iteration_time/feasible_changes.hpp"

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

std::vector<FeasibleChange> feasible_changes(const Problem& problem, const IterationSearchOptions& options) {
  using Kind = FeasibleChange::Kind;
  using Settings = std::vector<std::pair<Setting, SettingValue>>;
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
  const Job& job = problem.job;
  const Settings::value_type recompute = {Setting::recompute, name_of(Recomputation::full)},
                             micro_batch = {Setting::micro_batch, 1},
                             schedule = {Setting::schedule, name_of(Schedule::one_f_one_b)},
                             offload = {Setting::optimizer, name_of(Optimizer::host_offload)};
  const auto is_allowed = [&](const Settings::value_type& it) { return is_choice(job, it.first, it.second); };
  const bool can_recompute = job.execution.recomputation != Recomputation::full && is_allowed(recompute),
             has_larger_micro_batch = job.execution.micro_batch > 1,
             can_offload = job.training.optimizer != Optimizer::host_offload && !job.target;
  if (can_recompute) try_settings({recompute});
  if (job.execution.recompute_layers) try_settings({{Setting::recompute_layers, layer_count(job.model)}});
  if (has_larger_micro_batch) try_settings({micro_batch});
  if (traits(job.execution.schedule).forwards_first && is_allowed(schedule)) try_settings({schedule});
  if (can_offload) try_settings({offload});
  if (changes.empty() && can_recompute && can_offload)
    try_settings(has_larger_micro_batch ? Settings{recompute, offload, micro_batch}
                                        : Settings{recompute, offload});
  if (const auto memory = fitting_memory(problem, options))
    changes.push_back({Kind::memory, {}, {}, *memory});
  return is_stopped(options.common) ? std::vector<FeasibleChange>() : changes;
}

}  // namespace dtfm::search
