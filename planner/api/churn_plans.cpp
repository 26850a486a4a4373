#include "planner/api/churn_plans.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "simulator/run/failure_policy.hpp"

namespace dtfm::api {
namespace {

/// Every evaluation of a search goes through the changes, so only the first ones of a long recording count.
/// Chosen by hand: some 0.1 ms for 64 devices.
constexpr std::size_t max_changes = 500;

search::Churn churn_of(const sim::Scenario& scenario, int devices) {
  const sim::FailurePolicyTraits& policy = sim::traits(scenario.on_failure);
  search::Churn churn;
  churn.horizon_s = scenario.horizon_s.value_or(std::max(2 * scenario.events.back().date, 1.0));
  for (const sim::DeviceEvent& it : scenario.events)
    if (it.kind != sim::DeviceEvent::Kind::speed)
      churn.changes.push_back(
          {it.date, it.device, it.kind == sim::DeviceEvent::Kind::join, it.warning_s > 0});
  if (churn.changes.size() > max_changes) {
    churn.horizon_s = std::min(churn.horizon_s, std::max(churn.changes[max_changes].date_s, 1.0));
    churn.changes.resize(max_changes);
  }
  churn.detection_s = scenario.detection_s;
  if (const auto& checkpoint = scenario.checkpoint) {
    churn.checkpoint = search::ChurnCheckpoint{checkpoint->bandwidth / bits_per_byte, {}};
    if (!checkpoint->is_period_automatic) churn.checkpoint->period_s = checkpoint->period_s;
  }
  if (scenario.on_failure == sim::FailurePolicy::spare) {
    churn.is_spare.assign(at(devices), !scenario.spares);
    if (scenario.spares)
      for (const int device : *scenario.spares) churn.is_spare[at(device)] = true;
  }
  churn.waits_for_all = scenario.on_failure == sim::FailurePolicy::wait;
  churn.resumes_iteration = policy.resumes_iteration;
  churn.loads_checkpoint = policy.loads_checkpoint;
  churn.computes_copies = policy.keeps_copies;
  churn.replans = policy.asks_planner;
  return churn;
}

}  // namespace

std::vector<search::Churn> churn_of(const std::vector<NamedScenario>& scenarios, int devices) {
  std::vector<search::Churn> churn;
  for (const NamedScenario& it : scenarios)
    if (has_departures(it.scenario)) churn.push_back(churn_of(it.scenario, devices));
  return churn;
}

bool survives_sharded(const sim::Scenario& scenario) {
  const sim::FailurePolicyTraits& policy = sim::traits(scenario.on_failure);
  return !has_departures(scenario) ||
         (scenario.checkpoint && !policy.resumes_iteration && !policy.keeps_copies);
}

std::vector<search::PlanCandidate> plans_with_flushes(const Problem& problem, Objective objective,
                                                      const std::vector<search::PlanCandidate>& plans) {
  const search::PlanScore score(objective, problem.topology);
  const auto network = std::make_shared<const cost::NetworkCost>(problem.topology, problem.constants);
  std::vector<search::PlanCandidate> found;
  for (const search::PlanCandidate& it : plans) {
    const Job& job = it.job->problem.job;
    const auto decided =
        std::make_shared<const search::DecidedJob>(problem, job, stage_sizes(it.plan), network);
    Plan plan = it.plan;
    const int flush = cost::max_fitting_flush(decided->model, plan);
    if (job.execution.flush || job.target || flush <= plan.execution.flush.value_or(0) ||
        flush >= micro_batch_count(job))
      continue;
    plan.execution.flush = flush;
    const auto has_plan = [&](const std::vector<search::PlanCandidate>& known) {
      return std::any_of(known.begin(), known.end(),
                         [&](const search::PlanCandidate& other) { return other.plan == plan; });
    };
    if (has_plan(plans) || has_plan(found)) continue;
    search::PlanCandidate candidate = search::evaluate_plan(decided, std::move(plan), score);
    if (candidate.deficit_bytes <= 0) found.push_back(std::move(candidate));
  }
  return found;
}

}  // namespace dtfm::api
