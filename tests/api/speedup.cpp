// The settings between those of a scheme and those of a plan.
#include "planner/api/speedup.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::api;

namespace {

/// A layout of `stages` stages and `replicas` replicas with blocking 1F1B and rings.
ChosenLayout chosen_layout(int stages, int replicas) {
  const Job job = chain_job(4, 1e6, 1e6);
  ChosenLayout chosen;
  chosen.layout = Layout{job, plan_of(job, stages, replicas, 2)};
  chosen.layout->plan.execution.schedule = Schedule::one_f_one_b_blocking;
  chosen.layout->plan.execution.gradient_sync = GradientSync::ring;
  return chosen;
}

Plan interleaved_plan() {
  Plan plan = plan_of(chain_job(4, 1e6, 1e6), 2, 2, 2);
  plan.execution.schedule = Schedule::interleaved;
  plan.execution.chunks = 2;
  plan.execution.gradient_sync = GradientSync::hierarchical;
  plan.execution.overlap = true;
  return plan;
}

}  // namespace

TEST_CASE("the first step has the settings of the layout, the second one also the schedule of the plan") {
  const auto [layout, planned_schedule] = steps_between(*chosen_layout(2, 2).layout, interleaved_plan());
  CHECK(format_settings(layout) == "1f1b-blocking, ring");
  CHECK(format_settings(planned_schedule) == "interleaved 2, ring");
  CHECK(format_settings(settings_of(interleaved_plan())) == "interleaved 2, hierarchical overlapped");
}

TEST_CASE("a layout without pipelines or replicas has the schedule or collective of the plan") {
  const SettingSteps replicas = steps_between(*chosen_layout(1, 4).layout, interleaved_plan());
  CHECK(format_settings(replicas.layout) == "interleaved 2, ring");
  CHECK(replicas.planned_schedule == replicas.layout);
  const SettingSteps alone = steps_between(*chosen_layout(1, 1).layout, interleaved_plan());
  CHECK(alone.layout == settings_of(interleaved_plan()));
  CHECK(alone.planned_schedule == alone.layout);
}

TEST_CASE("a job with settings leaves none of them open") {
  Job job = chain_job(4, 1e6, 1e6);
  job.automatic = {Setting::schedule, Setting::gradient_sync, Setting::tensor};
  job.execution.chunks = 4;
  const Job set = with_settings(job, {Schedule::one_f_one_b, {}, GradientSync::tree, true});
  CHECK(set.execution.schedule == Schedule::one_f_one_b);
  CHECK(!set.execution.chunks);
  CHECK(set.execution.gradient_sync == GradientSync::tree);
  CHECK(set.execution.overlap);
  CHECK(set.automatic == SettingSet{Setting::tensor});
}

TEST_CASE("partitioned gradients come with a schedule that can run them") {
  ChosenLayout zero = chosen_layout(1, 4);
  zero.layout->plan.execution.optimizer_sharding = OptimizerSharding::zero2;
  Plan planned = interleaved_plan();
  const SettingSteps kept = steps_between(*zero.layout, planned);
  CHECK(format_settings(kept.layout) == "1f1b-blocking, ring zero2");
  CHECK(kept.planned_schedule == kept.layout);
  planned.execution.schedule = Schedule::gpipe;
  planned.execution.chunks.reset();
  const SettingSteps replaced = steps_between(*zero.layout, planned);
  CHECK(format_settings(replaced.layout) == "gpipe, ring zero2");
  CHECK(replaced.planned_schedule == replaced.layout);
  const Job job = with_settings(chain_job(4, 1e6, 1e6), replaced.layout);
  CHECK(job.execution.optimizer_sharding == OptimizerSharding::zero2);
  CHECK(job.automatic == SettingSet{});
}

TEST_CASE("schemes that train differently, or as no plan can, are not decomposable") {
  CHECK(is_decomposable(chosen_layout(2, 2)));
  ChosenLayout rare = chosen_layout(2, 2), skipping = chosen_layout(2, 2), swarm;
  rare.layout->sync_every = 16;
  skipping.layout->skipped = 1;
  swarm.swarm.emplace();
  for (const ChosenLayout& it : {rare, skipping, swarm}) CHECK(!is_decomposable(it));
  ChosenLayout sharded = chosen_layout(1, 2);
  sharded.layout->plan.execution.optimizer_sharding = OptimizerSharding::zero3;
  CHECK(is_decomposable(sharded));
  ChosenLayout offloaded = sharded;
  offloaded.layout->plan.execution.optimizer_offload = true;
  sharded.layout->plan.execution.gradient_sync = GradientSync::hierarchical;
  for (const ChosenLayout& it : {sharded, offloaded}) CHECK(!is_decomposable(it));
}
