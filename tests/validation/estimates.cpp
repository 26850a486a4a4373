#include "tests/validation/estimates.hpp"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/parallel.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/regular_layout.hpp"

namespace dtfm {
using namespace cost;
using namespace sim;
namespace {

struct Times {
  double estimated = 0, simulated = 0;
};

EstimateError error_message(const std::vector<Times>& times) {
  constexpr double far = 0.05;
  const auto count = static_cast<double>(times.size());
  EstimateError error;
  std::vector<std::pair<double, double>> pairs;
  for (const Times& it : times) {
    const double relative = it.estimated / it.simulated - 1;
    error.mean += std::abs(relative) / count;
    error.far += (std::abs(relative) > far) / count;
    if (std::abs(relative) > std::abs(error.worst)) error.worst = relative;
    pairs.emplace_back(it.estimated, it.simulated);
  }
  error.rank_correlation = kendall_tau(pairs);
  error.plans = static_cast<int>(times.size());
  return error;
}

Times times_of(const IterationModel& model, const Plan& plan) {
  return {estimate_iteration(model, plan).iteration_s,
          replay(iteration_graph(model.problem, plan).graph).makespan};
}

}  // namespace

Plan random_plan(const Problem& problem, Rng& rng) {
  const Job& job = problem.job;
  const int micro_batches = micro_batch_count(job);
  const int devices = problem.topology->size();
  const int chunks = job.execution.schedule == Schedule::interleaved ? job.execution.chunks.value_or(1) : 1;
  const int max_stages = std::min(devices, layer_count(job.model) / chunks);
  const int stages = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(max_stages)));
  const int max_replicas = std::min(devices / stages, micro_batches);
  const int replicas = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(max_replicas)));
  std::vector<int> order(at(devices));
  for (int device = 0; device < devices; ++device) order[at(device)] = device;
  rng.shuffle(std::span<int>(order));
  Placement placement(stages, replicas);
  for (int replica = 0; replica < replicas; ++replica)
    for (int stage = 0; stage < stages; ++stage)
      placement.at(stage, replica) = order[at(replica * stages + stage)];
  Plan plan = plan_from_placement(placement, job);
  if (job.execution.schedule == Schedule::interleaved)  // multiples of the number of stages
    for (Pipeline& pipeline : plan.pipelines)
      pipeline.micro_batches = std::max(1, pipeline.micro_batches / stages) * stages;
  return plan;
}

double kendall_tau(const std::vector<std::pair<double, double>>& pairs) {
  double concordant = 0, of_first = 0, of_second = 0;
  const auto order = [](double a, double b) { return (a < b) - (b < a); };
  for (std::size_t i = 0; i < pairs.size(); ++i)
    for (std::size_t j = i + 1; j < pairs.size(); ++j) {
      const int first = order(pairs[i].first, pairs[j].first),
                second = order(pairs[i].second, pairs[j].second);
      concordant += first * second;
      of_first += first != 0;
      of_second += second != 0;
    }
  return concordant / std::sqrt(of_first * of_second);
}

EstimateError estimate_error(const Problem& problem, int plans, std::uint64_t seed, int threads) {
  const IterationModel model(problem);
  const std::vector<Times> times = parallel_map(plans, threads, [&](int i) {
    Rng rng = Rng::for_task(seed, static_cast<std::uint64_t>(i));
    return times_of(model, random_plan(problem, rng));
  });
  return error_message(times);
}

EstimateError random_job_error(Schedule schedule, int jobs, bool shared, int threads) {
  return error_message(parallel_map(jobs, threads, [&](int i) {
    Rng rng = Rng::for_task(static_cast<std::uint64_t>(i), shared ? 1 : 0);
    Problem problem{random_topology(rng, 2 + static_cast<int>(rng.below(8)), shared),
                    random_chain_job(rng, 2 + static_cast<int>(rng.below(10))),
                    {1, 0.001, 0.9, 0}};
    set_training(rng, problem.job, schedule);
    const Plan plan = arbitrary_plan(rng, problem, 1);
    return times_of(IterationModel(problem), plan);
  }));
}

EstimateError regular_layout_error(Schedule schedule, double speed_spread) {
  std::vector<Times> times;
  for (const int stages : {4, 8})
    for (const int pipelines : {2, 4})
      for (const int micro_batches : {1, 2, 4, 8, 16, 64}) {
        if (schedule == Schedule::interleaved && micro_batches % stages != 0) continue;
        const auto [problem, plan] = regular_layout(schedule, stages, pipelines, micro_batches, speed_spread);
        times.push_back(times_of(IterationModel(problem), plan));
      }
  return error_message(times);
}

}  // namespace dtfm
