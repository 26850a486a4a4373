// What targets run, and what they make of jobs and plans.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/plan/settings.hpp"
#include "core/plan/target.hpp"
#include "core/plan/target_requirements.hpp"
#include "core/plan/target_settings.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/open_settings.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

namespace {

using Texts = std::vector<std::string>;

Texts format_all(const std::vector<TargetChange>& changes) {
  Texts texts;
  for (const TargetChange& it : changes) texts.push_back(format_change(it));
  return texts;
}

/// GPT with tied embeddings in fp16, as the default job.
Job gpt_job() {
  Job job;
  job.name = "gpt";
  job.model = Transformer{8, 1024, 16, 512, 50257};
  job.training.global_batch = 16;
  return job;
}

/// Two pipelines of two stages.
Plan uniform_plan(const Job& job) {
  return plan_of(job, 2, 2, 8);
}

}  // namespace

TEST_CASE("every target names something of everything and only what exists without chunks first") {
  std::set<std::string_view> names;
  for (const TargetTraits& it : target_table()) {
    CAPTURE(it.name);
    CHECK(names.insert(it.name).second);
    REQUIRE(!it.schedules.empty());
    REQUIRE(!it.gradient_syncs.empty());
    REQUIRE(!it.recomputations.empty());
    REQUIRE(!it.orders.empty());
    REQUIRE(!it.optimizer_shardings.empty());
    CHECK(it.optimizer_shardings.front() == OptimizerSharding::none);
    CHECK_FALSE(traits(it.schedules.front()).has_chunks);
    for (const GradientSync sync : it.gradient_syncs) CHECK(traits(sync).in_jobs);
    for (const Schedule schedule : it.schedules) CHECK(traits(schedule).in_jobs);
  }
}

TEST_CASE("a target restricts the values that a job lists") {
  Job job = gpt_job();
  job.automatic = {Setting::schedule, Setting::gradient_sync};
  job.listed[Setting::schedule] = {"gpipe", "interleaved", "1f1b-blocking"};
  job.listed[Setting::gradient_sync] = {"sharded-ps", "tree"};  // megatron runs neither
  const Texts changes = format_all(restrict_to_target(job, Target::megatron));
  CHECK(std::count(changes.begin(), changes.end(),
                   "schedule [interleaved, 1f1b-blocking] instead of [gpipe, interleaved, 1f1b-blocking]") ==
        1);
  CHECK(std::count(changes.begin(), changes.end(), "gradient_sync ring instead of [sharded-ps, tree]") == 1);
  CHECK(choices(job, Setting::schedule) == std::vector<SettingValue>{"interleaved", "1f1b-blocking"});
  CHECK(job.execution.schedule == Schedule::one_f_one_b_blocking);  // interleaved would require chunks
  CHECK(job.automatic == SettingSet{Setting::schedule});
  CHECK(first_schedule(job) == Schedule::one_f_one_b_blocking);
}

TEST_CASE("a target that runs only listed schedules with chunks plans the schedule") {
  Job job = gpt_job();
  job.automatic = {Setting::schedule};
  job.listed[Setting::schedule] = {"gpipe", "interleaved"};
  const Texts changes = format_all(restrict_to_target(job, Target::megatron));
  CHECK(std::count(changes.begin(), changes.end(), "planned schedule instead of [gpipe, interleaved]") == 1);
  CHECK(job.listed.empty());
  CHECK(job.execution.schedule == Schedule::one_f_one_b_blocking);
}

TEST_CASE("a job is restricted to what its target runs") {
  Job job = gpt_job();
  CHECK(format_all(restrict_to_target(job, Target::megatron)) ==
        Texts{"planned schedule instead of gpipe", "gradient_sync ring instead of sharded-ps",
              "optimizer adam-20 instead of adam-16", "uniform_pipelines true instead of false",
              "tied_embedding_sync true instead of false"});
  CHECK(job.target == Target::megatron);
  CHECK(job.automatic[Setting::schedule]);
  CHECK(job.execution.schedule == Schedule::one_f_one_b_blocking);
  CHECK(is_choice(job, Setting::schedule, name_of(Schedule::interleaved)));
  CHECK_FALSE(is_choice(job, Setting::schedule, name_of(Schedule::gpipe)));
  CHECK(first_schedule(job) == Schedule::one_f_one_b_blocking);
  CHECK(min_stages(job) == 1);
  job.execution.schedule = Schedule::interleaved;
  CHECK(min_stages(job) == 3);
}

TEST_CASE("settings that a target runs are kept and the order of computations where possible") {
  Job job = gpt_job();
  job.model = Transformer{.layers = 8, .hidden = 1024, .heads = 16, .sequence = 512, .tied = false};
  job.training.precision = Precision::bf16;
  job.training.optimizer = Optimizer::sgd_12;
  job.execution.schedule = Schedule::one_f_one_b;
  job.execution.gradient_sync = GradientSync::ring;
  job.execution.overlap = true;
  CHECK(format_all(restrict_to_target(job, Target::megatron)) ==
        Texts{"schedule 1f1b-blocking instead of 1f1b", "uniform_pipelines true instead of false"});
  job.execution.schedule = Schedule::interleaved;
  job.execution.chunks = 2;
  CHECK(restrict_to_target(job, Target::megatron).empty());
  CHECK(job.execution.chunks == 2);
  CHECK(format_all(restrict_to_target(job, Target::deepspeed)) ==
        Texts{"schedule 1f1b-blocking instead of interleaved", "overlap false instead of true"});
  CHECK_FALSE(job.execution.chunks);
}

TEST_CASE("changes get the values that the planner decided for what a target leaves open") {
  Job job = gpt_job();
  job.execution.schedule = Schedule::gpipe;
  CHECK(decided_changes({{"parallelism.schedule", "1f1b", "auto"}, {"training.recompute", "none", "full"}}, job) ==
        std::vector<TargetChange>{{"parallelism.schedule", "1f1b", "gpipe"}, {"training.recompute", "none", "full"}});
}

TEST_CASE("open settings stay open unless the target has a single choice") {
  Job job = gpt_job();
  job.automatic = all_open_settings();
  restrict_to_target(job, Target::dtfm);
  CHECK_FALSE(job.automatic[Setting::optimizer_sharding]);
  CHECK(job.automatic[Setting::micro_batch]);
  CHECK(job.automatic[Setting::gradient_sync]);
  CHECK_FALSE(job.automatic[Setting::schedule]);
  CHECK_FALSE(job.automatic[Setting::recompute]);
  CHECK_FALSE(job.automatic[Setting::tensor]);
  CHECK_FALSE(job.automatic[Setting::activations]);
  CHECK(job.execution.schedule == Schedule::gpipe);
  CHECK(job.execution.recomputation == Recomputation::full);
  CHECK(job.training.optimizer == Optimizer::host_offload);
  CHECK_FALSE(is_choice(job, Setting::gradient_sync, name_of(GradientSync::tree)));
  CHECK(min_stages(job) == 2);
}

TEST_CASE("a target runs the optimizer sharding that it has, and otherwise zero1 or none") {
  Job job = gpt_job();
  job.execution.optimizer_sharding = OptimizerSharding::zero1;
  job.execution.gradient_sync = GradientSync::ring;
  Job open = job;
  open.automatic[Setting::optimizer_sharding] = true;
  const auto change = [&](Target target) {
    Job own = job;
    for (const TargetChange& it : restrict_to_target(own, target))
      if (it.key == "parallelism.optimizer_sharding") return format_change(it);
    return std::string();
  };
  CHECK(change(Target::megatron) == "");
  CHECK(change(Target::deepspeed) == "");
  CHECK(change(Target::torchtitan) == "optimizer_sharding none instead of zero1");
  job.execution.optimizer_sharding = OptimizerSharding::zero2;
  CHECK(change(Target::deepspeed) == "planned optimizer_sharding instead of zero2");
  Plan plan = plan_of(job, 1, 2, 8);
  plan.execution = job.execution;
  CHECK(run_on_target(plan, job, Target::megatron).plan.execution.optimizer_sharding ==
        OptimizerSharding::zero1);
  CHECK(run_on_target(plan, job, Target::torchtitan).plan.execution.optimizer_sharding ==
        OptimizerSharding::none);
  restrict_to_target(open, Target::megatron);
  CHECK(open.automatic[Setting::optimizer_sharding]);
  CHECK(is_choice(open, Setting::optimizer_sharding, "zero1"));
  CHECK_FALSE(is_choice(open, Setting::optimizer_sharding, "zero2"));
}

TEST_CASE("restricting a job or a plan again changes nothing") {
  for (const TargetTraits& target : target_table()) {
    CAPTURE(target.name);
    Job job = gpt_job();
    job.execution.flush = 4;
    job.execution.compression.gradients = 0.5;
    restrict_to_target(job, target.kind);
    CHECK(restrict_to_target(job, target.kind).empty());
    const Job given = gpt_job();
    const TargetedPlan once = run_on_target(uniform_plan(given), given, target.kind);
    CHECK_FALSE(once.changes.empty());
    CHECK(once.plan.execution == once.job.execution);
    CHECK(has(target.schedules, once.plan.execution.schedule));
    CHECK(has(target.gradient_syncs, once.plan.execution.gradient_sync));
    CHECK(has(target.recomputations, once.plan.execution.recomputation));
    CHECK(once.plan.execution.tied_embedding_sync == target.tied_embedding_sync);
    const TargetedPlan again = run_on_target(once.plan, once.job, target.kind);
    CHECK(again.changes.empty());
    CHECK(again.plan == once.plan);
  }
}

TEST_CASE("only pytorch needs no barrier between iterations, and with fp16 it does") {
  for (const TargetTraits& target : target_table())
    for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
      CAPTURE(target.name, precision);
      Job job = gpt_job();
      job.training.precision = precision;
      restrict_to_target(job, target.kind);
      CHECK(job.execution.iteration_barrier ==
            (target.kind != Target::pytorch || precision == Precision::fp16));
    }
}

TEST_CASE("tensor parallelism of a target applies only to plans that have it") {
  Job job = gpt_job();
  job.parallelism.sequence_parallel = false;
  job.parallelism.scatter_gather = true;
  CHECK(run_on_target(uniform_plan(job), job, Target::torchtitan).job.parallelism.scatter_gather);
  job.parallelism.tensor = 2;
  restrict_to_target(job, Target::torchtitan);
  CHECK(job.parallelism.sequence_parallel);
  CHECK_FALSE(job.parallelism.scatter_gather);
  restrict_to_target(job, Target::dtfm);
  CHECK(job.parallelism.tensor == 1);
}

TEST_CASE("a plan that a target cannot run is rejected with the nearest change") {
  const Job job = gpt_job();
  Plan plan = uniform_plan(job);
  plan.pipelines[1].stages[0].layers.second = plan.pipelines[1].stages[1].layers.first = 3;
  CHECK(error_message([&] { run_on_target(plan, job, Target::megatron); }) ==
        "megatron: pipelines 0 and 1 split layers differently (4/4 vs 3/5); megatron has one layout for all "
        "replicas; use --to pytorch, or plan with --target megatron");
  CHECK(run_on_target(plan, job, Target::pytorch).plan.pipelines == plan.pipelines);
  CHECK(error_message([&] { run_on_target(plan_of(job, 1, 2, 8), job, Target::dtfm); }) ==
        "dtfm: pipelines have 1 stage; dtfm needs at least 2; plan with --target dtfm");
}
