#include "planner/api/replanner.hpp"

#include <utility>

#include "planner/api/devices/sub_topology.hpp"
#include "core/base/error.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"

namespace dtfm::api {
namespace {

// Both set by hand: 1000 evaluations take about a second on 32 devices, and instances in published spot
// traces live for about half an hour.
constexpr long long evaluations = 1'000;
constexpr double horizon_s = 1800;

/// The job under which the plan runs, with nothing left to the planner except the shape and, unless the job
/// of the run fixes them, the flushes.
Job job_of(const Problem& problem, const Plan& plan) {
  Job job = problem.job;
  job.automatic = {};
  job.parallelism.pipeline.reset();
  job.parallelism.data.reset();
  job.parallelism.tensor = plan.tensor;
  job.execution = plan.execution;
  job.execution.flush = problem.job.execution.flush;
  return job;
}

}  // namespace

sim::Replanner make_replanner(const Problem& problem) {
  return [&problem](const Plan& running, const std::vector<bool>& is_available) -> std::optional<Plan> {
    SubTopology part = sub_topology(problem.topology, is_available);
    if (part.whole.empty()) return std::nullopt;
    const Problem remaining{std::move(part.topology), job_of(problem, running), problem.constants,
                            problem.roofline};
    search::IterationSearchOptions options;
    options.common.evaluations = evaluations;
    options.finalists = 1;
    options.warm = search::WarmStart{renumber_devices(running, part.in_part), remaining.job, horizon_s};
    try {
      const search::IterationSearchResult found = search::search_iteration(remaining, options);
      if (found.finalists.empty() || found.finalists.front().deficit_bytes > 0) return std::nullopt;
      return renumber_devices(found.finalists.front().plan, part.whole);
    } catch (const search::NoSuchShape&) {
      return std::nullopt;
    }
  };
}

}  // namespace dtfm::api
