#include "core/plan/plan_conflicts.hpp"

#include <functional>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/open_settings.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

namespace {

/// Returns a job that fixes a value other than the default for every setting.
Job decided_job() {
  Job job = chain_job(4, 1e6, 1e6);
  job.training.global_batch = 8;
  ExecutionConfig& execution = job.execution;
  execution.micro_batch = 2;
  execution.schedule = Schedule::interleaved;
  execution.chunks = 2;
  execution.flush = 4;
  execution.gradient_sync = GradientSync::ring;
  execution.optimizer_sharding = OptimizerSharding::zero1;
  execution.overlap = true;
  execution.recomputation = Recomputation::full;
  execution.compression = {0.25, 0.5, BitsPerSecond(8e9), {}, {}, BitsPerSecond(1e9)};
  return job;
}

/// Returns the first conflict with the decided job after a change to its plan; empty if there is none.
std::string conflict(const std::function<void(ExecutionConfig&)>& change) {
  const Job job = decided_job();
  Plan plan = plan_of(job, 2, 1, 4);
  change(plan.execution);
  const auto conflicts = plan_conflicts(plan, job);
  CHECK(conflicts.size() <= 1);
  return conflicts.empty() ? "" : conflicts.front().problem + "; " + conflicts.front().fix;
}

}  // namespace

TEST_CASE("a plan with the settings of its job has no conflict") {
  CHECK(conflict([](ExecutionConfig&) {}) == "");
  CHECK_NOTHROW(check_no_conflict(plan_of(decided_job(), 2, 1, 4), decided_job()));
}

TEST_CASE("every setting that contradicts the job is a conflict") {
  CHECK(conflict([](ExecutionConfig& it) { it.micro_batch = 1; }) ==
        "micro_batch 1, but the job's training.micro_batch is 2; set the job's to 1 or auto");
  CHECK(conflict([](ExecutionConfig& it) { it.schedule = Schedule::one_f_one_b; }) ==
        "schedule 1f1b, but the job's parallelism.schedule is interleaved; set the job's to 1f1b or auto");
  CHECK(conflict([](ExecutionConfig& it) { it.chunks = 4; }) ==
        "chunks 4, but the job's parallelism.chunks is 2; set the job's to 4");
  CHECK(conflict([](ExecutionConfig& it) { it.flush = 2; }) ==
        "flush 2, but the job's parallelism.flush is 4; set the job's to 2");
  CHECK(conflict([](ExecutionConfig& it) { it.flush.reset(); }) ==
        "no flush, but the job's parallelism.flush is 4; remove the job's");
  CHECK(conflict([](ExecutionConfig& it) { it.gradient_sync = GradientSync::tree; }) ==
        "gradient_sync tree, but the job's parallelism.gradient_sync is ring; set the job's to tree or auto");
  CHECK(
      conflict([](ExecutionConfig& it) { it.optimizer_sharding = OptimizerSharding::none; }) ==
      "optimizer_sharding none, but the job's parallelism.optimizer_sharding is zero1; set the job's to none "
      "or auto");
  CHECK(conflict([](ExecutionConfig& it) { it.overlap = false; }) ==
        "overlap false, but the job's parallelism.overlap is true; set the job's to false");
  CHECK(conflict([](ExecutionConfig& it) { it.tied_embedding_sync = true; }) ==
        "tied_embedding_sync true, but the job's parallelism.tied_embedding_sync is false; set the job's to "
        "true");
  CHECK(
      conflict([](ExecutionConfig& it) { it.iteration_barrier = false; }) ==
      "iteration_barrier false, but the job's parallelism.iteration_barrier is true; set the job's to false");
  CHECK(conflict([](ExecutionConfig& it) { it.recomputation = Recomputation::none; }) ==
        "recompute none, but the job's training.recompute is full; set the job's to none or auto");
  CHECK(
      conflict([](ExecutionConfig& it) { it.compression.activations = 1; }) ==
      "compression.activations 1, but the job's compression.activations is 0.25; set the job's to 1 or auto");
  CHECK(conflict([](ExecutionConfig& it) {
          it.compression.gradient_preset = {CompressionMethod::quantize_8_bit};
        }) ==
        "compression.gradients 8-bit, but the job's compression.gradients is 0.5; set the job's to 8-bit "
        "or auto");
  CHECK_THAT(conflict([](ExecutionConfig& it) { it.compression.throughput.reset(); }),
             contains("no compression.throughput, but the job's compression.throughput is "));
  CHECK_THAT(
      conflict([](ExecutionConfig& it) { it.compression.bandwidth_threshold.reset(); }),
      contains("no compression.bandwidth_threshold, but the job's compression.bandwidth_threshold is "));
}

TEST_CASE("settings that the job leaves to the planner are no conflict") {
  Job job = decided_job();
  job.automatic = all_open_settings();
  job.execution.flush.reset();
  Plan plan = plan_of(job, 2, 1, 4);
  plan.execution.micro_batch = 1;
  plan.execution.schedule = Schedule::gpipe;
  plan.execution.chunks.reset();
  plan.execution.flush = 3;
  plan.execution.gradient_sync = GradientSync::tree;
  plan.execution.optimizer_sharding = OptimizerSharding::none;
  plan.execution.recomputation = Recomputation::none;
  plan.execution.compression.activations = plan.execution.compression.gradients = 1;
  CHECK(plan_conflicts(plan, job).empty());
  plan.execution.overlap = false;
  CHECK_THAT(error_message([&] { check_no_conflict(plan, job); }),
             contains("plan: overlap false, but the job's parallelism.overlap is true"));
}

TEST_CASE("a micro-batch that is not in the list of the job is a conflict") {
  Job job = decided_job();
  job.automatic[Setting::micro_batch] = true;
  job.listed[Setting::micro_batch] = {2, 4};
  Plan plan = plan_of(job, 2, 1, 4);
  plan.execution.micro_batch = 4;
  CHECK(plan_conflicts(plan, job).empty());
  plan.execution.micro_batch = 8;
  CHECK_THAT(
      error_message([&] { check_no_conflict(plan, job); }),
      contains(
          "plan: micro_batch 8, but the job's training.micro_batch is [2, 4]; set the job's to 8 or auto"));
}

TEST_CASE("a plan may have another shape than the job") {
  Job job = decided_job();
  job.parallelism.pipeline = 4;
  job.parallelism.data = 2;
  CHECK(plan_conflicts(plan_of(job, 2, 1, 4), job).empty());
}
