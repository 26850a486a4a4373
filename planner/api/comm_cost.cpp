#include "planner/api/comm_cost.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/error.hpp"
#include "planner/api/plan_answer.hpp"
#include "planner/api/plan_request.hpp"

namespace dtfm::api {
namespace {

std::string divisors_of(int number) {
  std::vector<int> divisors;
  for (int i = 1; i <= number; ++i)
    if (number % i == 0) divisors.push_back(i);
  return fmt::format("{}", fmt::join(divisors, ", "));
}

/// The number of replicas for `count` stages on `devices` devices, or of stages for `count` replicas.
int quotient(std::string_view noun, int count, int devices) {
  if (count < 1 || devices % count != 0)
    throw search::NoSuchShape(fmt::format("{} {} do not divide {} devices; divisors of {}: {}", count, noun,
                                          devices, devices, divisors_of(devices)));
  return devices / count;
}

search::Shape shape_of(const PlanRequest& request) {
  const Job& job = request.problem.job;
  auto [stages, replicas] = request.options.limits;
  if (!stages && !replicas) {
    stages = job.parallelism.pipeline;
    replicas = job.parallelism.data;
  }
  if (!stages && !replicas) stages = job.comm_cost_stages;
  const int devices = request.problem.topology->size();
  if (stages && replicas && 1LL * *stages * *replicas != devices)
    throw search::NoSuchShape(fmt::format("{} stages × {} replicas are {} devices; the topology has {}",
                                          *stages, *replicas, 1LL * *stages * *replicas, devices));
  if (stages) return {*stages, quotient("stages", *stages, devices)};
  if (replicas) return {quotient("replicas", *replicas, devices), *replicas};
  throw search::NoSuchShape(
      fmt::format("comm-cost requires a number of stages, but job {} has none; divisors of {}: {}", job.name,
                  devices, divisors_of(devices)));
}

/// The devices in the direction in which a message between them takes longer.
std::pair<int, int> slower_direction(const Topology& topology, int a, int b, Bytes size) {
  const auto time = [&](int from, int to) {
    const Link link = topology.link(from, to);
    return link.latency + size / link.bandwidth;
  };
  return time(b, a) > time(a, b) ? std::pair(b, a) : std::pair(a, b);
}

CommCostSteps::Sync sync_of(const Topology& topology, const CommCostProblem& problem,
                            std::span<const int> group) {
  const auto pair_s = [&](int a, int b) { return a == b ? -1 : problem.model.sync(a, b); };
  CommCostSteps::Sync sync;
  for (const int device : group) {
    double seconds = 0;
    for (const int other : group)
      if (other != device) seconds += pair_s(device, other);
    if (seconds > sync.seconds || device == group.front()) sync = {seconds, device, {}};
  }
  const int peer = *std::max_element(group.begin(), group.end(), [&](int a, int b) {
    return pair_s(sync.device, a) < pair_s(sync.device, b);
  });
  const Bytes shard = problem.volumes.gradient / static_cast<double>(group.size());
  if (peer != sync.device) sync.link = slower_direction(topology, sync.device, peer, shard);
  return sync;
}

/// A job of stages × replicas equal parts.
CommCostProblem make_problem(const Problem& problem, const search::Shape& shape) {
  const auto [stages, replicas] = shape;
  Job job = problem.job;
  job.parallelism.pipeline = stages;
  job.parallelism.data = replicas;
  job.automatic = {};
  const CommVolumes volumes = comm_volumes(job, stages, replicas);
  return {std::move(job), volumes, cost::comm_cost_model(problem.topology, volumes, stages, replicas)};
}

CommCostSteps steps_of(const Topology& topology, const CommCostProblem& problem, const Placement& placement) {
  CommCostSteps steps;
  for (int stage = 0; stage < placement.stages(); ++stage)
    steps.syncs.push_back(sync_of(topology, problem, placement.group(stage)));
  for (int stage = 0; stage + 1 < placement.stages(); ++stage) {
    const auto seconds = [&](int pipeline) {
      return problem.model.hop(placement.at(stage, pipeline), placement.at(stage + 1, pipeline));
    };
    int slowest = 0;
    for (int pipeline = 1; pipeline < placement.replicas(); ++pipeline)
      if (seconds(pipeline) > seconds(slowest)) slowest = pipeline;
    steps.hops.push_back({seconds(slowest), slowest,
                          slower_direction(topology, placement.at(stage, slowest),
                                           placement.at(stage + 1, slowest), problem.volumes.activation)});
  }
  return steps;
}

PlanAnswer comm_cost_answer(const PlanRequest& request, Plan plan, CommCostProblem problem,
                            const Placement& placement, const cost::CommCost& cost) {
  PlanAnswer answer{request.problem, std::move(plan), Objective::comm_cost};
  answer.problem.job = problem.job;
  CommCostSteps steps = steps_of(request.problem.topology, problem, placement);
  answer.comm_cost = CommCostAnswer{std::move(problem), placement, cost, std::move(steps)};
  return answer;
}

}  // namespace

void check_comm_cost(const Job& job) {
  if (job.execution.expert != 1 || job.execution.token_parts() != 1)
    throw Error("job " + job.name, "comm-cost does not support `context`, `expert` and `stage_data`");
  if (job.parallelism.tensor != 1)
    throw Error("job " + job.name, fmt::format("tensor {}, but comm-cost supports only one device per stage",
                                               job.parallelism.tensor));
  if (job.execution.compression.bandwidth_threshold)
    throw Error("job " + job.name, "comm-cost does not support `bandwidth_threshold` of compression");
}

PlanAnswer plan_by_comm_cost(const PlanRequest& request) {
  check_comm_cost(request.problem.job);
  CommCostProblem problem = make_problem(request.problem, shape_of(request));
  const search::SearchOptions& common = request.options.common;
  const search::SearchResult found = search::search_comm_cost(problem.model, request.strategy, common);
  Plan plan = plan_from_placement(found.placement, problem.job);
  PlanAnswer answer =
      comm_cost_answer(request, std::move(plan), std::move(problem), found.placement, found.cost);
  answer.lower_bound = PlanBound{found.lower_bound.value, found.cost.total(), found.lower_bound.method};
  answer.search = {request.strategy, common.seed,       found.evaluations,
                   found.stopped,    found.convergence, common.prove};
  answer.undecided = request.problem.job.automatic;
  return answer;
}

PlanAnswer score_by_comm_cost(const PlanRequest& request, const GivenPlan& given) {
  Problem scored = request.problem;
  scored.job.execution = given.plan.execution;
  check_comm_cost(scored.job);
  const Placement placement = balanced_placement(given.plan, scored.topology, given.file);
  CommCostProblem problem = make_problem(scored, {placement.stages(), placement.replicas()});
  const cost::CommCost cost = cost::comm_cost(problem.model, placement);
  PlanAnswer answer = comm_cost_answer(request, given.plan, std::move(problem), placement, cost);
  const cost::CommCostModel& model = answer.comm_cost->problem.model;
  answer.comm_cost->best_deployment = cost::comm_cost(model, cost::best_deployment(model, placement));
  if (given.checkpoint_period_s)
    answer.checkpoint_period = {*given.checkpoint_period_s, PeriodSource::plan_file};
  answer.is_given = true;
  answer.reader_notes = given.notes;
  answer.undecided = given.undecided;
  return answer;
}

}  // namespace dtfm::api
