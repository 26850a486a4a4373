// Tests the annealing of a single plan: what its moves must preserve and update.
#include "planner/search/iteration_time/plan_anneal.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/editable_plan.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_hosts.hpp"
#include "tests/support/random_problem.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::search;

namespace {

constexpr double initial_temperature = 0.02, final_temperature = 0.0002;

AnnealedPlan annealed(const PlanCandidate& start, const PlanScore& score, long long moves,
                      std::uint64_t seed = 0) {
  Rng rng = Rng::for_task(seed, 0);
  return anneal_plan(start, score, {moves, initial_temperature, final_temperature}, rng, {});
}

Plan one_pipeline(const Job& job, std::vector<Stage> stages) {
  return {static_cast<int>(stages.front().devices.size()),
          job.execution,
          {{job.training.global_batch, std::move(stages)}}};
}

}  // namespace

// Devices of hosts of three, two and one; messages inside a host are faster, and every message has an
// overhead. Groups have one device or are whole hosts. Some are unused.
TEST_CASE("exchanging interchangeable groups changes no estimate") {
  constexpr int devices = 14, used = 9, hosts[devices] = {0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8};
  enum Kind { same_host, different_hosts, whole_hosts, unused, kinds };
  int exchanged[kinds] = {};
  for (const bool shared : {false, true})
    for (const bool by_host : {false, true})
      for (const GradientSync sync :
           {GradientSync::sharded_ps, GradientSync::ring, GradientSync::tree, GradientSync::hierarchical})
        for (std::uint64_t seed = 0; seed < 20; ++seed) {
          CAPTURE(shared, by_host, sync, seed);
          Rng rng = Rng::for_task(3, seed);
          Problem problem{random_topology(rng, devices, shared), random_chain_job(rng, 6), {1, 0.01, 1, 0}};
          problem.job.execution.gradient_sync = sync;
          Topology& topology = problem.topology.edit();
          auto& rules = std::get<RuleLinks>(topology.links);
          for (int device = 0; device < devices; ++device) {
            Device& it = topology.devices[at(device)];
            it.host = hosts[device];
            const auto first = std::find(std::begin(hosts), std::end(hosts), it.host) - std::begin(hosts);
            it.site = topology.devices[at(static_cast<int>(first))].site;
            rules.link_class[at(device)] = it.site;
            it.speed = 1;
          }
          rules.same_host = rules.table;
          for (Eigen::Index site = 0; site < rules.table.rows(); ++site) {
            Link inside = rules.links[at(rules.table(site, site))];
            inside.bandwidth = BitsPerSecond(10 * inside.bandwidth.value());
            rules.same_host(site, site) = static_cast<int>(rules.links.size());
            rules.links.push_back(inside);
          }
          std::vector<std::vector<int>> groups;
          for (int device = 0; device < devices; ++device) {
            const bool joins = by_host && device > 0 && hosts[device] == hosts[device - 1];
            if (joins)
              groups.back().push_back(device);
            else
              groups.push_back({device});
          }
          if (by_host) std::erase_if(groups, [](const std::vector<int>& it) { return it.size() != 2; });
          problem.job.parallelism.tensor = by_host ? 2 : 1;
          const auto job = Decisions(problem).first();
          const PlanScore score(Objective::iteration_time, problem.topology);
          const std::vector<int> classes = interchangeable_classes(groups, *job, score);
          std::vector<int> order(groups.size());
          std::iota(order.begin(), order.end(), 0);
          rng.shuffle<int>(order);
          const int pipelines = by_host ? 2 : 3, stages = by_host ? 1 : used / pipelines;
          const auto planned = [&] {
            Plan plan = plan_of(problem.job, stages, pipelines, 2);
            plan.tensor = by_host ? 2 : 1;
            for (Pipeline& pipeline : plan.pipelines)
              for (Stage& stage : pipeline.stages)
                stage.devices = groups[at(order[at(stage.devices.front())])];
            return cost::estimate_iteration(job->model, plan).iteration_s;
          };
          const double before_s = planned();
          for (std::size_t a = 0; a < order.size(); ++a)
            for (std::size_t b = 0; b < a; ++b) {
              if (classes[at(order[a])] != classes[at(order[b])]) continue;
              std::swap(order[a], order[b]);
              CHECK(planned() == Approx(before_s).epsilon(1e-12));
              std::swap(order[a], order[b]);
              const bool is_unused = a >= at(stages * pipelines);
              const bool share_host =
                  hosts[groups[at(order[a])].front()] == hosts[groups[at(order[b])].front()];
              ++exchanged[is_unused    ? unused
                          : by_host    ? whole_hosts
                          : share_host ? same_host
                                       : different_hosts];
            }
        }
  for (int kind = 0; kind < kinds; ++kind) {
    CAPTURE(kind);
    CHECK(exchanged[kind] > 10);
  }
}

TEST_CASE("an evaluation returns nothing exactly if its energy exceeds the limit") {
  int pruned = 0, kept = 0, flushing = 0, exceeding = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(4, seed);
    Problem problem{random_topology(rng, 6, seed % 2 == 0), random_chain_job(rng, 6), {1, 0.01, 1, 0.5}};
    problem.job.training.global_batch = 12;
    const cost::StageNeeds needs = cost::IterationModel(problem).stages.needs({0, 3}, 1);
    const double memory = needs.state + needs.working + (0.5 + 4 * rng.uniform()) * needs.per_micro_batch;
    for (Gpu& gpu : problem.topology.edit().gpus) gpu.memory = Bytes(seed % 3 == 0 ? memory / 2 : memory);
    const auto job = Decisions(problem).first();
    const PlanScore score(Objective::iteration_time, problem.topology);
    PlanEvaluator evaluator(job, score);
    const Plan plan = plan_of(problem.job, 2, 3, 4);
    const PlanCandidate all = evaluator.evaluate_with_flushes(plan);
    CHECK(evaluator.deficit_bytes(all.plan) == all.deficit_bytes);
    for (const double share : {0.2, 0.9, 1 - 1e-9, 1 + 1e-9, 1.5}) {
      const auto found = evaluator.evaluate_with_flushes_up_to(share * energy_of(all), plan);
      REQUIRE(found.has_value() == (share > 1));
      ++(found ? kept : pruned);
      if (!found) continue;
      CHECK(found->score == all.score);
      CHECK(found->plan == all.plan);
    }
    flushing += all.plan.execution.flush ? 1 : 0;
    exceeding += all.deficit_bytes > 0 ? 1 : 0;
  }
  CHECK(pruned == 180);
  CHECK(kept == 120);
  CHECK(flushing > 5);
  CHECK(exceeding > 5);
}

TEST_CASE("pipelines flush as rarely as the layers found by annealing permit") {
  Problem problem{flat_topology({2}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(4, 10, 100), {}};
  problem.job.training.global_batch = 64;
  // A layer has 10 parameters of 16 bytes. A micro-batch keeps 100 B per layer and, at the boundary, 200 B or
  // 100 B of buffers. Split into two layers and two: 320 B of state, and 400 B or 300 B per micro-batch;
  // 2,000 B hold 4 of them. Split into three and one: 480 B and 500 B; 2,000 B hold 3.
  problem.topology.edit().gpus[0].memory = Bytes(2000);
  const PlanScore score(Objective::iteration_time, problem.topology);
  const auto job = Decisions(problem).first();
  const auto split_at = [&](int layer, int flush) {
    Plan plan = one_pipeline(problem.job, {{{0, layer}, {0}}, {{layer, 4}, {1}}});
    plan.execution.flush = flush;
    return evaluate_plan(job, std::move(plan), score);
  };
  const PlanCandidate start = split_at(3, 3), best = split_at(2, 4);
  REQUIRE(start.deficit_bytes == 0);
  REQUIRE(best.deficit_bytes == 0);
  REQUIRE(split_at(2, 3).score > best.score);
  const AnnealedPlan found = annealed(start, score, 500);
  CHECK(found.best.plan.execution.flush == 4);
  CHECK(found.best.score == Approx(best.score));
  const PlanCandidate again = evaluate_plan(job, found.best.plan, score);
  CHECK(again.deficit_bytes == 0);
  CHECK(again.score == Approx(found.best.score));
  // A flush interval given by the job is kept.
  problem.job.execution.flush = 3;
  const auto fixed = Decisions(problem).first();
  CHECK(annealed(evaluate_plan(fixed, start.plan, score), score, 500).best.plan.execution.flush == 3);
}

TEST_CASE("an unpriced device is not added to a stage if the objective is cost") {
  // Hosts of two devices and of one; a stage has one or two. The initial device costs 2 USD/h, the other
  // device of its host has an unknown price, and that of the other host costs half as much.
  Problem problem = host_problem({2, 1}, 4);
  problem.topology.edit().devices[0].price = DollarsPerHour(2);
  problem.topology.edit().devices[2].price = DollarsPerHour(1);
  Decisions decisions(problem);
  const auto jobs = decisions.mixed_degrees(*decisions.first());
  REQUIRE(jobs.size() == 1);
  const PlanScore score(Objective::cost_per_token, problem.topology);
  const PlanCandidate start = evaluate_plan(jobs.front(), one_pipeline(problem.job, {{{0, 4}, {0}}}), score);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    CAPTURE(seed);
    const AnnealedPlan found = annealed(start, score, 200, seed);
    CHECK(pipeline_major(found.best.plan) == std::vector<int>{2});
    CHECK(found.best.score == Approx(start.score / 2));
  }
}

TEST_CASE("annealing evaluates its initial solution and its changes within the budget") {
  const Problem problem{flat_topology({2}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(4, 10, 100), {}};
  const PlanScore score(Objective::iteration_time, problem.topology);
  const auto job = Decisions(problem).first();
  const PlanCandidate start =
      evaluate_plan(job, one_pipeline(problem.job, {{{0, 2}, {0}}, {{2, 4}, {1}}}), score);
  Rng rng = Rng::for_task(0, 0);
  const AnnealedPlan all = anneal_plan(start, score, {1000, initial_temperature, final_temperature}, rng, {});
  CHECK(all.is_complete);
  CHECK(all.evaluations > 100);
  CHECK(all.evaluations < 1001);  // some swaps are of a stage with itself
  Rng same = Rng::for_task(0, 0);
  const AnnealedPlan part =
      anneal_plan(start, score, {1000, initial_temperature, final_temperature, 100}, same, {});
  CHECK_FALSE(part.is_complete);
  CHECK(part.evaluations == 100);
}
