#include "planner/api/sensitivity.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <variant>

#include "planner/api/finalist_simulation.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::api {
namespace {

constexpr double less = 0.8, more = 1.2;  // of what is worse by 20 %
constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

/// More tasks would take seconds for every perturbation.
constexpr double max_simulated_tasks = 2e5;

/// The device of the plan that computes longest in an iteration.
int busiest_device(const search::PlanCandidate& candidate) {
  int busiest = -1;
  double longest_s = -1;
  for (const Pipeline& pipeline : candidate.plan.pipelines)
    for (const Stage& stage : pipeline.stages) {
      const cost::StageCosts& costs = candidate.job->model.stages_of(stage.devices.size());
      for (const int device : stage.devices) {
        const cost::ComputeTime time = costs.compute(costs.kind_of(device), stage.layers);
        const double seconds = pipeline.micro_batches * (time.forward_s + time.backward_s) + time.update_s;
        if (seconds <= longest_s) continue;
        longest_s = seconds;
        busiest = device;
      }
    }
  return busiest;
}

void add_latency(Topology& topology) {
  if (auto* measured = std::get_if<MeasuredLinks>(&topology.links)) measured->latency *= more;
  if (auto* rules = std::get_if<RuleLinks>(&topology.links))
    for (Link& link : rules->links) link.latency = Seconds(link.latency.value() * more);
}

/// Seconds of an iteration; NaN if the simulator rejects the plan. Throws WorkStopped.
double perturbed_seconds(const search::PlanCandidate& candidate,
                         const std::optional<Perturbation>& perturbation, const StopFunction& stop) {
  Problem problem = simulated_problem(candidate);
  Plan plan = candidate.plan;
  // Where receives are posted late, the trainer decides which sends block.
  if (perturbation == Perturbation::blocking_sends && traits(plan.execution.messaging).posts_receives)
    return unknown;
  if (perturbation == Perturbation::bandwidth) problem.constants.network_efficiency *= less;
  if (perturbation == Perturbation::latency) add_latency(problem.topology.edit());
  if (perturbation == Perturbation::slow_device)
    problem.topology.edit().devices[at(busiest_device(candidate))].speed *= less;
  if (perturbation == Perturbation::blocking_sends)
    plan.execution.blocking_sends = problem.job.execution.blocking_sends = true;
  try {
    const sim::UndisturbedIteration iteration = sim::simulate_undisturbed(problem, plan, stop);
    if (!iteration.is_complete) throw_if_stopped(stop);
    return iteration.is_complete ? iteration.seconds : unknown;
  } catch (const Error&) {
    return unknown;
  }
}

}  // namespace

std::vector<Sensitivity> simulate_sensitivity(const std::vector<search::PlanCandidate>& candidates,
                                              const Work& work) {
  constexpr int runs = 1 + static_cast<int>(perturbation_table.size());  // the first without perturbation
  const auto run = [&](int i) {
    const search::PlanCandidate& candidate = candidates[at(i / runs)];
    if (sim::tasks_of(candidate.job->problem, candidate.plan) > max_simulated_tasks || is_stopped(work))
      return unknown;
    const std::optional<Perturbation> perturbation =
        i % runs == 0 ? std::nullopt : std::optional(perturbation_table[at(i % runs - 1)].kind);
    try {
      return perturbed_seconds(candidate, perturbation, work.stop);
    } catch (const WorkStopped&) {
      return unknown;
    }
  };
  const std::vector<double> seconds = distributed_map(runs * static_cast<int>(candidates.size()),
                                                      affordable_workers(work, candidates, true), run);
  std::vector<Sensitivity> sensitivities(candidates.size());
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const auto own = std::span(seconds).subspan(i * at(runs), at(runs));
    const bool is_known = std::all_of(own.begin(), own.end(), [](double it) { return std::isfinite(it); });
    if (!is_known || own.front() <= 0) continue;  // a plan without micro-batches takes no time
    for (const double it : own.subspan(1)) sensitivities[i].push_back(it / own.front() - 1);
  }
  return sensitivities;
}

double mean_rise(const Sensitivity& sensitivity) {
  if (sensitivity.empty()) return 0;
  return std::accumulate(sensitivity.begin(), sensitivity.end(), 0.0) /
         static_cast<double>(sensitivity.size());
}

}  // namespace dtfm::api
