#include "planner/search/iteration_time/feasible_changes.hpp"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "planner/core/index.hpp"

namespace dtfm::search {
namespace {

/// Does a plan fit, by a short search? A device with too little memory for anything is not a plan's fault.
std::optional<Shape> fitting_shape(const Problem& problem, IterationSearchOptions options) {
  options.common.evaluations = 1;     // starts alone
  options.common.time_limit.reset();  // the answer must not depend on it
  options.common.on_progress = {};
  options.warm.reset();  // whether it fits is no matter of where it comes from
  options.finalists = 1;
  try {
    const IterationSearchResult result = search_iteration(problem, options);
    if (result.finalists.front().deficit_bytes > 0) return std::nullopt;
    return result.finalists.front().shape();
  } catch (const NoSuchShape&) {
    return std::nullopt;
  }
}

/// The least memory, of all GPUs alike, with which a plan fits: within 1 GB.
std::optional<double> fitting_memory(Problem problem, const IterationSearchOptions& options) {
  constexpr double gigabyte = 1e9, most = 4096;
  const auto fits = [&](double gigabytes) {
    for (Gpu& gpu : problem.topology.gpus) gpu.memory = Bytes(gigabytes * gigabyte);
    return fitting_shape(problem, options).has_value();
  };
  if (!fits(most)) return std::nullopt;
  double low = 0, high = most;
  while (high - low > 1) (fits((low + high) / 2) ? high : low) = (low + high) / 2;
  return std::ceil(high);
}

}  // namespace

std::vector<std::string> feasible_changes(const Problem& problem, const IterationSearchOptions& options) {
  std::vector<std::string> changes;
  const auto try_job = [&](const std::string& words, const auto& change) {
    Problem other = problem;
    change(other.job);
    if (fitting_shape(other, options)) changes.push_back(words);
  };
  if (options.limits.stages || options.limits.replicas) {
    IterationSearchOptions free = options;
    free.limits = {};
    if (const auto shape = fitting_shape(problem, free))
      changes.push_back(fmt::format("{} × {} (--pipeline {} --data {})", shape->stages, shape->replicas,
                                    shape->stages, shape->replicas));
  }
  const Job& job = problem.job;
  if (job.training.recompute != "full")
    try_job("recompute: full", [](Job& it) { it.training.recompute = "full"; });
  if (job.training.micro_batch > 1) try_job("micro_batch: 1", [](Job& it) { it.training.micro_batch = 1; });
  if (traits(job.parallelism.schedule).forwards_first)
    try_job(fmt::format("schedule: {}", name_of(Schedule::one_f_one_b)),
            [](Job& it) { it.parallelism.schedule = Schedule::one_f_one_b; });
  if (job.training.optimizer != "host-offload")
    try_job("optimizer: host-offload (its state on the host)",
            [](Job& it) { it.training.optimizer = "host-offload"; });
  if (changes.empty() && job.training.recompute != "full" && job.training.optimizer != "host-offload")
    try_job("recompute: full and optimizer: host-offload together", [](Job& it) {
      it.training.recompute = "full";
      it.training.optimizer = "host-offload";
      it.training.micro_batch = 1;
    });
  if (const auto memory = fitting_memory(problem, options))
    changes.push_back(fmt::format("GPUs of at least {:.0f} GB", *memory));
  return is_stopped(options.common) ? std::vector<std::string>() : changes;
}

}  // namespace dtfm::search
