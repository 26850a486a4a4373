// Tests the search with uniform pipelines: the same layers and number of micro-batches.
#include <algorithm>
#include <bit>

#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "planner/cost/iteration_time/planned_order.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/plan_enumeration.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {
using namespace cost;
using namespace search;
namespace {

/// Returns two sites of two or three devices, the first `slow` of which have half speed; layers take 3 s,
/// messages 1 s inside a site and 4 s between sites.
Problem small_problem(const std::vector<int>& per_site, int layers, int micro_batches, int slow) {
  Problem problem{
      flat_topology(per_site, link_of(0.01, 100), link_of(0.1, 25)), chain_job(layers, 10, 100), {}};
  problem.job.training.global_batch = micro_batches;
  problem.job.parallelism.uniform_pipelines = true;
  for (int device = 0; device < slow; ++device) problem.topology.edit().devices[at(device)].speed = 0.5;
  return problem;
}

bool are_uniform(const Plan& plan) {
  const Pipeline& first = plan.pipelines.front();
  return std::all_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const Pipeline& pipeline) {
    return pipeline.micro_batches == first.micro_batches &&
           std::equal(pipeline.stages.begin(), pipeline.stages.end(), first.stages.begin(),
                      first.stages.end(),
                      [](const Stage& a, const Stage& b) { return a.layers == b.layers; });
  });
}

IterationSearchOptions search_options(long long evaluations) {
  IterationSearchOptions options;
  options.common.evaluations = evaluations;
  return options;
}

TEST_CASE("the search finds the exhaustive optimum over all plans with uniform pipelines") {
  for (const int batches : {4, 6})
    for (const int slow : {0, 1, 2}) {
      CAPTURE(batches, slow);
      const Problem problem = small_problem({2, 2}, 4, batches, slow);
      const IterationModel model(problem);
      double least = 1e300;
      for_each_plan(model, [&](const Plan& plan) {
        if (are_uniform(plan)) least = std::min(least, estimate_iteration(model, plan).iteration_s);
      });
      const PlanCandidate found = search_iteration(problem, search_options(20'000)).finalists.front();
      CHECK(are_uniform(found.plan));
      CHECK(found.iteration_s <= least * 1.0001);
    }
}

// One device of the first stage and one of the last have less memory than the others.
TEST_CASE("uniform pipelines have the same warm-ups, which become shorter from stage to stage") {
  for (const double memory : {1e12, 450.0, 300.0}) {
    CAPTURE(memory);
    Problem problem = small_problem({3, 3}, 3, 40, 0);
    problem.job.parallelism.uniform_pipelines = true;
    problem.job.execution.schedule = Schedule::eager_one_f_one_b;
    Topology& topology = problem.topology.edit();
    topology.gpus.push_back(topology.gpus.front());
    topology.gpus.back().memory = Bytes(memory);
    topology.devices[1].gpu = topology.devices[5].gpu = static_cast<int>(topology.gpus.size()) - 1;
    Plan plan = plan_of(problem.job, 3, 2, 20);
    std::swap(plan.pipelines[0].stages[0].devices, plan.pipelines[1].stages[0].devices);
    const IterationModel model(problem);
    plan = with_planned_orders(model, plan);
    int before = 1000;
    for (std::size_t stage = 0; stage < 3; ++stage) {
      const auto& warm_up = plan.pipelines[0].stages[stage].warm_up;
      REQUIRE(warm_up.has_value());
      CHECK(warm_up == plan.pipelines[1].stages[stage].warm_up);
      CHECK(*warm_up < before);
      CHECK(*warm_up >= 2 - static_cast<int>(stage));
      before = *warm_up;
    }
  }
}

TEST_CASE("uniform pipelines cost more if one device is slow") {
  // A micro-batch of two layers takes 6 s, or 12 s on the slow device. 4 and 2 of them take 24 s on both; 3
  // and 3 take 36 s. Synchronization takes the same time.
  Problem problem = small_problem({2}, 2, 6, 1);
  IterationSearchOptions options = search_options(1000);
  options.limits = {1, 2};
  const double uniform_pipelines = search_iteration(problem, options).finalists.front().iteration_s;
  problem.job.parallelism.uniform_pipelines = false;
  CHECK(uniform_pipelines - search_iteration(problem, options).finalists.front().iteration_s == Approx(12));
}

TEST_CASE("pipelines are uniform whatever is automatic and however memory requires flushes") {
  int flushed = 0;
  for (const int batch : {1, 6, 12, 16, 36})
    for (const double memory : {400.0, 700.0, 1e9}) {
      CAPTURE(batch, memory);
      Problem problem = small_problem({3, 2}, 6, batch, 2);
      problem.topology.edit().gpus[0].memory = Bytes(memory);
      problem.job.automatic = {Setting::micro_batch, Setting::gradient_sync};
      for (const PlanCandidate& it : search_iteration(problem, search_options(1500)).finalists) {
        CHECK(are_uniform(it.plan));
        CHECK(tensor_degrees(it.plan).size() == 1);
        if (it.plan.execution.flush && it.deficit_bytes <= 0) {
          const auto micro_batches = static_cast<unsigned>(it.plan.pipelines.front().micro_batches);
          if (!std::has_single_bit(micro_batches)) continue;  // others have no divisor near any number
          CHECK(micro_batches % static_cast<unsigned>(*it.plan.execution.flush) == 0);
          ++flushed;
        }
      }
    }
  CHECK(flushed > 0);
}

TEST_CASE("a number of uniform pipelines that does not divide the micro-batches is rejected") {
  IterationSearchOptions options = search_options(100);
  options.limits.replicas = 3;
  CHECK_THAT(error_message([&] {
               search_iteration(small_problem({2, 2}, 4, 4, 0), options);
             }),
             contains("4 micro-batches; uniform pipelines require equal numbers of micro-batches"));
}

}  // namespace
}  // namespace dtfm
