// The search stays within what the target of a job runs.
#include <set>

#include "core/plan/target_settings.hpp"

#include "core/base/index.hpp"
#include "core/plan/target.hpp"
#include "core/plan/target_requirements.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {
using namespace search;
namespace {

/// Returns hosts of two devices at two sites, two devices slower than the others, and a GPT with tied
/// embeddings. Everything that a job may leave open is open.
Problem open_problem(Target target) {
  Problem problem{flat_topology({4, 4}, link_of(0.001, 1e9), link_of(0.02, 1e8)), {}, {}, {}};
  Topology& topology = problem.topology.edit();
  RuleLinks& links = std::get<RuleLinks>(topology.links);
  links.same_host = links.table;
  for (int device = 0; device < 8; ++device) topology.devices[at(device)].host = device / 2;
  for (int device = 0; device < 2; ++device) topology.devices[at(device)].speed = 0.6;
  Job& job = problem.job;
  job.name = "gpt";
  job.model = Transformer{6, 512, 8, 256, 5000};
  if (traits(target).llama_only)
    job.model = Transformer{.layers = 6,
                            .hidden = 512,
                            .heads = 8,
                            .sequence = 256,
                            .vocabulary = 5000,
                            .kv_heads = 4,
                            .gated = true,
                            .biases = no_biases,
                            .norm = Norm::rms,
                            .learned_positions = false,
                            .tied = false};
  job.training.global_batch = 24;
  job.efficiency = 0.5;
  job.automatic = {Setting::schedule, Setting::gradient_sync, Setting::micro_batch, Setting::recompute,
                   Setting::tensor};
  restrict_to_target(job, target);
  return problem;
}

TEST_CASE("every plan of a search for a target is one that the target runs without changes") {
  for (const TargetTraits& target : target_table()) {
    CAPTURE(target.name);
    const Problem problem = open_problem(target.kind);
    CHECK(error_message([&] { check_trainable(target, problem.job); }) == "no error");
    IterationSearchOptions options;
    options.common.evaluations = 3000;
    for (const PlanCandidate& it : search_iteration(problem, options).finalists) {
      Job job = it.job->problem.job;
      job.execution = it.plan.execution;
      CHECK(run_on_target(it.plan, job, target.kind).changes.empty());
    }
  }
}

// The two hosts of three devices would be used whole with degree 3, which 8 key-value heads do not allow.
TEST_CASE("a search does not choose tensor degrees that the target cannot divide") {
  Problem problem = open_problem(Target::megatron);
  for (int device = 0; device < 8; ++device) problem.topology.edit().devices[at(device)].host = device / 3;
  auto& model = std::get<Transformer>(problem.job.model);
  model.heads = 12;
  model.hidden = 768;
  model.sequence = 255;
  const auto degrees = [&](int kv_heads, bool sequence_parallel) {
    model.kv_heads = kv_heads;
    problem.job.parallelism.sequence_parallel = sequence_parallel;
    std::set<int> found;
    IterationSearchOptions options;
    options.common.evaluations = 500;
    for (const PlanCandidate& it : search_iteration(problem, options).finalists) found.insert(it.plan.tensor);
    return found;
  };
  CHECK_FALSE(degrees(4, false).contains(3));
  CHECK_FALSE(degrees(4, true).contains(2));  // an odd sequence
}

// Two stages in each of four pipelines would have three micro-batches each, or one of three.
TEST_CASE("a search for torchtitan fills the pipelines of 1F1B and keeps tied embeddings in one stage") {
  Problem problem = open_problem(Target::torchtitan);
  problem.job.automatic = {};
  problem.job.execution.schedule = Schedule::one_f_one_b_blocking;
  problem.job.training.global_batch = 4;
  problem.job.execution.micro_batch = 1;
  IterationSearchOptions options;
  options.common.evaluations = 500;
  for (const PlanCandidate& it : search_iteration(problem, options).finalists) {
    const auto [stages, replicas] = it.shape();
    CHECK(stages * replicas <= 4);
  }
  options.limits.stages = 4;
  options.limits.replicas = 2;
  CHECK_THAT(error_message([&] { search_iteration(problem, options); }),
             contains("with 1f1b at most as many as micro-batches"));
  options.limits = {};
  std::get<Transformer>(problem.job.model).tied = true;
  for (const PlanCandidate& it : search_iteration(problem, options).finalists) CHECK(it.shape().stages == 1);
}

TEST_CASE("a search for torchtitan gives pipelines on different devices one order of passes") {
  Problem problem = open_problem(Target::torchtitan);
  problem.job.automatic = {};
  problem.job.execution.schedule = Schedule::zero_bubble_greedy;
  problem.job.execution.micro_batch = 1;
  IterationSearchOptions options;
  options.common.evaluations = 500;
  options.limits.stages = 4;
  options.limits.replicas = 2;
  std::size_t several = 0;
  for (const PlanCandidate& it : search_iteration(problem, options).finalists) {
    const auto orders = planned_orders(it.plan.pipelines.front(), Schedule::zero_bubble_greedy);
    for (const PlannedOrder& order : orders)
      CHECK(order.passes.size() == 3 * at(it.plan.pipelines.front().micro_batches));
    for (const Pipeline& pipeline : it.plan.pipelines)
      CHECK(planned_orders(pipeline, Schedule::zero_bubble_greedy) == orders);
    several += it.plan.pipelines.size() > 1 ? 1 : 0;
    CHECK(run_on_target(it.plan, it.job->problem.job, Target::torchtitan).changes.empty());
  }
  CHECK(several > 0);
}

TEST_CASE("a target that requires several stages does not plan fewer") {
  IterationSearchOptions options;
  options.common.evaluations = 300;
  options.limits.stages = 1;
  CHECK_THAT(error_message([&] { search_iteration(open_problem(Target::dtfm), options); }),
             contains("target dtfm requires 2 or more stages"));
  CHECK(error_message([&] { search_iteration(open_problem(Target::megatron), options); }) == "no error");
}

}  // namespace
}  // namespace dtfm
