#include "planner/api/target_times.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/base/index.hpp"
#include "core/plan/target.hpp"
#include "core/plan/target_requirements.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::api {
namespace {

/// Limits the memory of all concurrent simulations, so that the times in trainers take no more of it than the
/// search for a plan of thousands of devices does.
constexpr double max_bytes = 2.5e8;

struct Run {
  TargetTime time;
  std::optional<TargetedPlan> targeted = {};  // empty with an obstacle
};

Run run_of(const Problem& problem, const Plan& plan, Target target) {
  Run run{{.target = target}};
  try {
    run.targeted = run_on_target(plan, problem.job, target);
    run.time.changes = run.targeted->changes;
  } catch (const NotRunnable& error) {
    run.time.obstacle = error.what();
  }
  return run;
}

Problem targeted_problem(const Problem& problem, const TargetedPlan& targeted) {
  return {problem.topology, targeted.job, problem.constants, problem.roofline};
}

double simulation_bytes(const Problem& problem, const TargetedPlan& targeted) {
  return sim::simulation_bytes(targeted_problem(problem, targeted), targeted.plan, true);
}

/// Sets the time of a run without obstacle.
void simulate_run(const Problem& problem, Run& run, const StopFunction& stop) {
  const Problem targeted = targeted_problem(problem, *run.targeted);
  try {
    if (simulation_bytes(problem, *run.targeted) > max_bytes)
      throw Error("", "too many messages to simulate");
    const sim::UndisturbedIteration it = sim::simulate_undisturbed(targeted, run.targeted->plan, stop);
    if (!it.is_complete) throw_if_stopped(stop);
    run.time.seconds = it.seconds;
    run.time.exceeds_memory = it.exceeds_memory;
  } catch (const Error& error) {
    run.time.obstacle = error.what();
  }
}

/// Whether two targets run a plan with the same settings.
bool take_equally_long(const Run& a, const Run& b) {
  if (!a.targeted || !b.targeted) return false;
  const Job &job = a.targeted->job, &other = b.targeted->job;
  return job.execution == other.execution && job.training.precision == other.training.precision &&
         job.training.optimizer == other.training.optimizer &&
         job.parallelism.sequence_parallel == other.parallelism.sequence_parallel &&
         job.parallelism.scatter_gather == other.parallelism.scatter_gather;
}

}  // namespace

TargetTime time_on_target(const Problem& problem, const Plan& plan, Target target, const StopFunction& stop) {
  Run run = run_of(problem, plan, target);
  if (run.targeted) simulate_run(problem, run, stop);
  return std::move(run.time);
}

std::vector<TargetTime> time_on_targets(const Problem& problem, const Plan& plan, const Work& work) {
  std::vector<Run> runs;
  for (const TargetTraits& target : target_table()) runs.push_back(run_of(problem, plan, target.kind));
  std::vector<std::size_t> distinct, number_of;  // the first run of each kind; of each run, its kind
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const auto same = std::find_if(distinct.begin(), distinct.end(), [&](std::size_t other) {
      return take_equally_long(runs[i], runs[other]);
    });
    number_of.push_back(static_cast<std::size_t>(same - distinct.begin()));
    if (same == distinct.end()) distinct.push_back(i);
  }
  double most_bytes = 1;
  for (const std::size_t i : distinct)
    if (runs[i].targeted)
      if (const double bytes = simulation_bytes(problem, *runs[i].targeted); bytes <= max_bytes)
        most_bytes = std::max(most_bytes, bytes);
  const auto threads =
      static_cast<int>(std::clamp(max_bytes / most_bytes, 1.0, static_cast<double>(work.threads)));
  const std::vector<Run> simulated =
      parallel_map(static_cast<int>(distinct.size()), threads, [&](int number) {
        Run run = runs[distinct[at(number)]];
        if (run.targeted) simulate_run(problem, run, work.stop);
        return run;
      });
  std::vector<TargetTime> times;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    times.push_back(std::move(runs[i].time));
    if (!runs[i].targeted) continue;
    const TargetTime& same = simulated[number_of[i]].time;
    times.back().seconds = same.seconds;
    times.back().exceeds_memory = same.exceeds_memory;
    times.back().obstacle = same.obstacle;
  }
  return times;
}

}  // namespace dtfm::api
