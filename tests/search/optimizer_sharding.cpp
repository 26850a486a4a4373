// Sharded optimizers as decisions of the search.
#include "core/plan/optimizer_sharding.hpp"
#include "core/plan/target.hpp"
#include "core/plan/target_settings.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_hosts.hpp"
#include "tests/support/iteration_seconds.hpp"

namespace dtfm {
using namespace search;
namespace {

IterationSearchOptions few_evaluations() {
  IterationSearchOptions options;
  options.common.evaluations = 2000;
  return options;
}

/// Four equal devices and a chain of four layers of 5e7 parameters: 16 bytes each, 3.2 GB in all.
Problem sharded_search_problem(double memory_bytes) {
  Problem problem{flat_topology({4}, link_of(0, 1e9), link_of(0, 1e9)), chain_job(4, 5e7, 1e6),
                  Calibration{1, 0, 1, 0}};
  problem.topology.edit().gpus.front().memory = Bytes(memory_bytes);
  problem.job.training.global_batch = 8;
  problem.job.execution.schedule = Schedule::one_f_one_b;
  problem.job.execution.gradient_sync = GradientSync::ring;
  return problem;
}

TEST_CASE("stages with partitioned gradients have one device, whatever the degrees of others") {
  Problem problem = host_problem({2, 2, 4}, 4);
  problem.job.automatic[Setting::optimizer_sharding] = true;
  REQUIRE(problem.job.automatic[Setting::tensor]);
  Decisions decisions(problem);
  const auto first = decisions.first();
  CHECK(decisions.with_any_degree(*first));
  int checked = 0;
  for (const auto& it : decisions.alternatives(*first)) {
    if (!requires_single_devices(it->problem.job)) continue;
    CHECK_FALSE(decisions.with_any_degree(*it));
    CHECK(decisions.mixed_degrees(*it).empty());
    CHECK(decisions.degrees_by_gpu(*it).empty());
    ++checked;
  }
  CHECK(checked > 0);
}

TEST_CASE("the search tries hierarchical-ring for trainers only with zero1") {
  for (const Target target : {Target::megatron, Target::torchtitan, Target::pytorch_pipelining}) {
    Problem problem = undecided_problem();
    problem.job.automatic[Setting::optimizer_sharding] = problem.job.automatic[Setting::gradient_sync] = true;
    restrict_to_target(problem.job, target);
    Decisions decisions(problem);
    std::set<std::pair<OptimizerSharding, GradientSync>> seen;
    std::vector<std::shared_ptr<const DecidedJob>> jobs = {decisions.first()};
    for (std::size_t i = 0; i < 10 && i < jobs.size(); ++i)
      for (const auto& it : decisions.alternatives(*jobs[i])) {
        const ExecutionConfig& execution = it->problem.job.execution;
        if (seen.emplace(execution.optimizer_sharding, execution.gradient_sync).second) jobs.push_back(it);
      }
    CAPTURE(target);
    CHECK(seen.count({OptimizerSharding::none, GradientSync::ring}) == 1);
    CHECK(seen.count({OptimizerSharding::zero1, GradientSync::ring}) == 1);
    CHECK(seen.count({OptimizerSharding::zero1, GradientSync::hierarchical_ring}) == 1);
    CHECK(seen.count({OptimizerSharding::none, GradientSync::hierarchical_ring}) == 0);
    CHECK(seen.count({OptimizerSharding::zero3, GradientSync::hierarchical_ring}) == 0);
  }
}

TEST_CASE("every alternative can run, and each sharding is among them") {
  Problem problem = undecided_problem();
  problem.job.automatic[Setting::optimizer_sharding] = true;
  problem.job.automatic[Setting::tensor] = true;
  Decisions decisions(problem);
  std::set<std::tuple<OptimizerSharding, GradientSync, int>> seen;
  std::vector<std::shared_ptr<const DecidedJob>> jobs = {decisions.first()};
  for (std::size_t i = 0; i < 40 && i < jobs.size(); ++i)
    for (const auto& it : decisions.alternatives(*jobs[i])) {
      const Job& job = it->problem.job;
      REQUIRE(can_shard(job.execution));
      if (requires_single_devices(job)) REQUIRE(job.parallelism.tensor == 1);
      if (seen.insert(
                  {job.execution.optimizer_sharding, job.execution.gradient_sync, job.execution.micro_batch})
              .second)
        jobs.push_back(it);
    }
  for (const OptimizerSharding sharding :
       {OptimizerSharding::zero1, OptimizerSharding::zero2, OptimizerSharding::zero3})
    for (const GradientSync sync : {GradientSync::ring, GradientSync::sharded_ps})
      for (const int micro_batch : {1, 2, 3, 4, 6, 12}) {
        CAPTURE(sharding, sync, micro_batch);
        CHECK(seen.count({sharding, sync, micro_batch}) == 1);
      }
  CHECK(seen.count({OptimizerSharding::none, GradientSync::tree, 1}) == 1);
  CHECK(seen.count({OptimizerSharding::zero1, GradientSync::hierarchical, 1}) == 1);
}

TEST_CASE("partitioned gradients are tried with every micro-batch and recomputation together") {
  Problem problem = host_problem({2, 2, 4}, 4);
  problem.job.automatic = {Setting::optimizer_sharding, Setting::micro_batch, Setting::recompute};
  problem.job.execution.gradient_sync = GradientSync::ring;
  problem.job.execution.recompute_layers = 2;  // of each stage, with `full`
  Decisions decisions(problem);
  std::multiset<std::tuple<OptimizerSharding, int, Recomputation>> seen;
  for (const auto& it : decisions.alternatives(*decisions.first())) {
    const ExecutionConfig& execution = it->problem.job.execution;
    seen.emplace(execution.optimizer_sharding, execution.micro_batch, execution.recomputation);
    CHECK(execution.recompute_layers.has_value() == (execution.recomputation == Recomputation::full));
  }
  for (const OptimizerSharding sharding : {OptimizerSharding::zero2, OptimizerSharding::zero3})
    for (const int micro_batch : {1, 2, 4})
      for (const Recomputation recomputation :
           {Recomputation::none, Recomputation::selective, Recomputation::mlp, Recomputation::full}) {
        CAPTURE(sharding, micro_batch, recomputation);
        CHECK(seen.count({sharding, micro_batch, recomputation}) == 1);
      }
}

TEST_CASE("every alternative is tried once") {
  Problem problem = undecided_problem();
  problem.job.automatic[Setting::optimizer_sharding] = true;
  Decisions decisions(problem);
  const auto sharded_with = [&](OptimizerSharding sharding) {
    const auto all = decisions.alternatives(*decisions.first());
    return *std::find_if(all.begin(), all.end(), [&](const auto& it) {
      return it->problem.job.execution.optimizer_sharding == sharding;
    });
  };
  for (const auto& base :
       {decisions.first(), sharded_with(OptimizerSharding::zero1), sharded_with(OptimizerSharding::zero3)}) {
    std::set<std::shared_ptr<const DecidedJob>> jobs = {base};
    for (const auto& it : decisions.alternatives(*base)) CHECK(jobs.insert(it).second);
  }
}

TEST_CASE("a job that fixes the synchronization is sharded with it or not at all") {
  Problem problem = sharded_search_problem(16e9);
  problem.job.automatic[Setting::optimizer_sharding] = true;
  for (const auto& [sync, expected] :
       {std::pair(GradientSync::sharded_ps, 3), std::pair(GradientSync::tree, 0)}) {
    problem.job.execution.gradient_sync = sync;
    Decisions decisions(problem);
    int count = 0;
    for (const auto& it : decisions.alternatives(*decisions.first())) {
      CHECK(it->problem.job.execution.gradient_sync == sync);
      ++count;
    }
    CHECK(count == expected);
  }
}

// A device holds all 2e8 parameters: 3.2 GB, with zero1 and four replicas (4 + 12 / 4) · 2e8 = 1.4 GB, with
// zero2 (2 + 14 / 4) · 2e8 = 1.1 GB and 0.1 GB of gradients, and with zero3 0.8 GB and at most 0.3 GB. An
// unsharded pipeline of two stages needs 1.6 GB.
TEST_CASE("auto shards as much as memory requires") {
  const auto found = [](double memory_bytes) {
    Problem problem = sharded_search_problem(memory_bytes);
    problem.job.automatic[Setting::optimizer_sharding] = true;
    IterationSearchOptions options = few_evaluations();
    options.limits.stages = 1;
    options.limits.replicas = 4;
    return search_iteration(problem, options).finalists.front();
  };
  const PlanCandidate zero1 = found(1.45e9), zero3 = found(1.15e9), none_fits = found(1e9);
  CHECK(zero1.deficit_bytes == 0);
  CHECK(zero1.plan.execution.optimizer_sharding != OptimizerSharding::none);
  CHECK(zero3.deficit_bytes == 0);
  CHECK(zero3.plan.execution.optimizer_sharding == OptimizerSharding::zero3);
  CHECK(none_fits.deficit_bytes > 0);
}

TEST_CASE("a search with partitioned gradients plans only single devices") {
  for (const OptimizerSharding sharding : {OptimizerSharding::zero2, OptimizerSharding::zero3}) {
    Problem problem = sharded_search_problem(16e9);
    problem.job.execution.optimizer_sharding = sharding;
    problem.job.automatic = {Setting::tensor, Setting::micro_batch};
    for (const PlanCandidate& it : search_iteration(problem, few_evaluations()).finalists) {
      CHECK_NOTHROW(check_optimizer_sharding(it.plan));
      CHECK(depth(it.plan) == 1);
      CHECK_FALSE(it.plan.execution.flush);
    }
  }
}

TEST_CASE("partitioned gradients leave other settings open") {
  Problem problem = sharded_search_problem(16e9);
  problem.job.execution.optimizer_sharding = OptimizerSharding::zero2;
  problem.job.training.global_batch = 64;
  problem.job.execution.micro_batch = 8;
  const double fixed_s = search_iteration(problem, few_evaluations()).finalists.front().iteration_s;
  problem.job.execution.micro_batch = 1;
  problem.job.automatic = {Setting::micro_batch, Setting::schedule};
  CHECK(search_iteration(problem, few_evaluations()).finalists.front().iteration_s <= fixed_s);
}

TEST_CASE("an automatic sharding is no worse than any given one") {
  Problem problem = sharded_search_problem(2e9);
  Problem open = problem;
  open.job.automatic[Setting::optimizer_sharding] = true;
  const PlanCandidate found = search_iteration(open, few_evaluations()).finalists.front();
  for (const OptimizerShardingTraits& sharding : optimizer_sharding_table()) {
    problem.job.execution.optimizer_sharding = sharding.kind;
    const PlanCandidate given = search_iteration(problem, few_evaluations()).finalists.front();
    if (given.deficit_bytes == 0) CHECK(found.iteration_s <= given.iteration_s * 1.001);
  }
  CHECK(found.iteration_s == Approx(estimated_iteration_s(found.job->problem, found.plan)));
}

}  // namespace
}  // namespace dtfm
