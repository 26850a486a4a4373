#include "planner/cost/bounds/plan_bound.hpp"

#include <memory>

#include "tests/support/arbitrary_plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/iteration_seconds.hpp"

using namespace dtfm;

namespace {

double bound_of(const IterationModel& model, const Plan& plan) {
  std::vector<PipelineBound> bounds;
  for (const Pipeline& pipeline : plan.pipelines) bounds.push_back(pipeline_bound(model, pipeline));
  std::vector<const PipelineBound*> pointers;
  for (const PipelineBound& it : bounds) pointers.push_back(&it);
  return min_iteration_s(model, plan, pointers);
}

/// Makes the last pipeline a stage shorter, so that pipelines have different depths.
void cut_last_pipeline(const Problem& problem, Plan& plan) {
  std::vector<Stage>& stages = plan.pipelines.back().stages;
  if (stages.size() < 2 || problem.job.execution.schedule == Schedule::interleaved) return;
  const int end = stages.back().layers.second;
  stages.pop_back();
  stages.back().layers.second = end;
}

/// Two stages: 1 s and 2 s per layer, and messages of 0.5 s with a latency of 0.1 s.
Problem two_stage_problem(Schedule schedule) {
  Problem problem{flat_topology({2}, link_of(0.1, 2e7), link_of(0.1, 2e7)), chain_job(4, 0, 1e7),
                  Calibration{1, 0, 1, 0}};
  problem.job.execution.schedule = schedule;
  problem.job.training.global_batch = 5;
  return problem;
}

}  // namespace

TEST_CASE("no random plan is simulated below its own bound") {
  for (const bool shared : {false, true})
    for (std::uint64_t seed = 0; seed < 2000; ++seed) {
      Rng rng = Rng::for_task(seed, shared ? 3 : 2);
      Problem problem{random_topology(rng, 1 + static_cast<int>(rng.below(9)), shared),
                      random_chain_job(rng, 2 + static_cast<int>(rng.below(10))),
                      Calibration{1, 0.001, 0.9, rng.below(2) * 0.5}};
      problem.constants.micro_batch_overhead_s = rng.below(2) * 0.01;
      set_training(rng, problem.job);
      set_planned_schedule(seed, problem.job);
      problem.job.execution.tied_embedding_sync = seed % 3 == 0;
      if (seed % 3 == 0) tie_last_layer(problem.job);
      Plan plan = arbitrary_plan(rng, problem, 1);
      if (rng.below(2) == 0) cut_last_pipeline(problem, plan);
      if (rng.below(2) == 0) split_virtual_stages(rng, plan);
      CAPTURE(seed, shared, name_of(problem.job.execution.schedule),
              name_of(problem.job.execution.gradient_sync), problem.job.execution.overlap);
      const double bound = bound_of(IterationModel(problem), plan);
      REQUIRE(bound > 0);
      REQUIRE(bound <= simulated_iteration_s(problem, plan) * (1 + 1e-9));
    }
}

// One micro-batch takes 2 + 0.6 + 2 + 4 + 0.6 + 4 s; each further one 2 + 4 s.
TEST_CASE("the bound of gpipe without contention is its time") {
  const Problem problem = two_stage_problem(Schedule::gpipe);
  const Plan plan = plan_of(problem.job, 2, 1, 5);
  CHECK(bound_of(IterationModel(problem), plan) == Approx(13.2 + 4 * 6));
  CHECK(simulated_iteration_s(problem, plan) == Approx(13.2 + 4 * 6));
}

// Two micro-batches are in flight, so that five take at least 2.5 times as long as one.
TEST_CASE("the bound of 1f1b counts the micro-batches in flight") {
  Problem problem = two_stage_problem(Schedule::one_f_one_b);
  problem.topology.edit() = flat_topology({2}, link_of(10, 2e7), link_of(10, 2e7));
  const Plan plan = plan_of(problem.job, 2, 1, 5);
  CHECK(bound_of(IterationModel(problem), plan) == Approx(2.5 * 33));
}

TEST_CASE("gradient synchronization follows the last backward pass") {
  Problem problem = two_stage_problem(Schedule::gpipe);
  problem.job = chain_job(4, 1e7, 1e7);
  problem.job.execution.gradient_sync = GradientSync::sharded_ps;
  problem.job.training.global_batch = 4;
  const Plan plan = plan_of(problem.job, 1, 2, 2);
  const IterationModel model(problem);
  const double sync_s =
      min_sync_s(model, {&plan.pipelines[0].stages[0], &plan.pipelines[1].stages[0]}, {0, 4});
  CHECK(sync_s > 0);
  CHECK(bound_of(model, plan) == Approx(2 * 12 + sync_s));
  CHECK(simulated_iteration_s(problem, plan) == Approx(2 * 12 + sync_s));
}
