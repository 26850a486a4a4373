#include "cli/plan/plan_record.hpp"

#include <cmath>

#include <fmt/format.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/plan/explanation.hpp"
#include "planner/api/plan_estimate.hpp"
#include "core/base/index.hpp"
#include "core/plan/layer_times.hpp"
#include "core/plan/shards.hpp"

namespace dtfm::cli {
io::PlanRecord make_plan_record(const PlanOptions& options, const search::PlanCandidate& best) {
  io::PlanRecord record;
  record.objective = options.objective;
  record.iteration = api::estimate_plan(best);
  record.version = DTFM_VERSION;
  for (const std::string& note : LayerTimes(best.job->problem, best.plan.execution, tensor_degrees(best.plan))
                                     .notes(pipeline_major(best.plan)))
    record.warnings.push_back(note);
  return record;
}

void add_explanation(const PlanOptions& options, const search::PlanCandidate& best, const Work& work,
                     io::PlanRecord& record) {
  if (!options.explain) return;
  record.explanation = make_explanation(best, work);
  if (!record.explanation) record.warnings.emplace_back("there was not enough time to explain the plan");
}

void add_target_times(const Problem& problem, const Plan& plan,
                      const std::vector<api::SimulatedTimes>& simulated, const Work& work,
                      io::PlanRecord& record) {
  if (problem.job.target || simulated.empty()) return;
  try {
    record.targets = api::time_on_targets(problem, plan, work);
  } catch (const WorkStopped&) {
    record.warnings.emplace_back("there was not enough time to simulate the plan in trainers");
  }
}

void add_notes(const std::vector<std::string>& notes, io::PlanRecord& record) {
  record.warnings.insert(record.warnings.end(), notes.begin(), notes.end());
}

std::vector<std::string> no_progress_notes(const std::vector<api::SimulatedTimes>& simulated) {
  std::vector<std::string> notes;
  for (const api::SimulatedTimes& it : simulated)
    if (std::isfinite(it.mean_s) && !std::isfinite(it.max_s))
      notes.push_back(
          fmt::format("simulated under scenario {}, the plan deadlocks before the horizon; its mean is "
                      "over the whole horizon",
                      it.scenario));
    else if (!std::isfinite(it.mean_s))
      notes.push_back(fmt::format("simulated under scenario {}, the plan completes no iteration{}",
                                  it.scenario, it.why_none.empty() ? "" : ": " + it.why_none));
  return notes;
}

std::string format_memory_deficit(const search::PlanCandidate& candidate) {
  cost::DeviceMemory worst;
  for (const cost::DeviceMemory& it : api::estimate_plan(candidate).memory)
    if (it.needed - it.capacity > worst.needed - worst.capacity) worst = it;
  return fmt::format("{} needs {:.3g} GB and has {:.3g} GB",
                     candidate.job->problem.topology->devices[at(worst.device)].id, worst.needed / 1e9,
                     worst.capacity / 1e9);
}

void add_bound(const api::PlanRequest& request, const api::PlanResult& result, io::PlanRecord& record) {
  if (result.stopped() == search::Stopped::optimal) {
    const double seconds = result.finalist_results.front().seconds;
    record.lower_bound = {seconds, seconds, "all plans that the planner considers were enumerated"};
    return;
  }
  record.lower_bound = api::lower_bound(request.options, result.best(), result.simulated());
  if (!record.lower_bound) return;
  if (!request.problem.job.automatic.is_empty())
    record.lower_bound->method = "of plans with these decisions: " + record.lower_bound->method;
  if (record.lower_bound->value > record.lower_bound->cost * (1 + 1e-9))
    record.warnings.emplace_back(
        "the lower bound exceeds the cost of the plan: internal error, please report it");
}

}  // namespace dtfm::cli
