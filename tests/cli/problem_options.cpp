#include "planner/request/problem_options.hpp"

#include <utility>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::request;

namespace {

Job job_with(int batch, int micro_batch, std::vector<int> choices = {}) {
  Job job;
  job.training.global_batch = batch;
  job.execution.micro_batch = micro_batch;
  if (!choices.empty()) job.listed[Setting::micro_batch] = {choices.begin(), choices.end()};
  return job;
}

/// Pipelines without stages that compute `micro_batches` each.
Plan plan_with(int micro_batch, const std::vector<int>& micro_batches) {
  Plan plan;
  plan.execution.micro_batch = micro_batch;
  for (const int count : micro_batches) plan.pipelines.push_back({count, {}});
  return plan;
}

}  // namespace

TEST_CASE("--batch replaces the global batch of the job") {
  Job job = job_with(24, 2);
  set_global_batch({}, job);
  CHECK(job.training.global_batch == 24);
  set_global_batch(30, job);
  CHECK(job.training.global_batch == 30);
}

TEST_CASE("--batch must be a multiple of every micro-batch that the job permits") {
  Job fixed = job_with(24, 2), open = job_with(24, 1, {1, 2, 4});
  CHECK(error_message([&] { set_global_batch(25, fixed); }) ==
        "--batch: 25 is not a multiple of the micro-batch, 2");
  CHECK(error_message([&] { set_global_batch(26, open); }) ==
        "--batch: 26 is not a multiple of the micro-batch, 4");
  CHECK(fixed.training.global_batch == 24);
  CHECK(open.training.global_batch == 24);
}

TEST_CASE("a plan must compute the batch of --batch") {
  const Plan plan = plan_with(2, {7, 5});  // 12 micro-batches of 2 sequences
  CHECK(error_message([&] { check_batch_of_plan({}, plan, "plan.json"); }) == "no error");
  CHECK(error_message([&] { check_batch_of_plan(24, plan, "plan.json"); }) == "no error");
  CHECK(error_message([&] { check_batch_of_plan(48, plan, "plan.json"); }) ==
        "--batch: 48 needs 24 micro-batches of 2, but the pipelines of plan.json compute 12; plan with "
        "--batch 48, or remove micro_batches from the plan");
  CHECK(error_message([&] { check_batch_of_plan(25, plan, "plan.json"); }) ==
        "--batch: 25 is not a multiple of the micro-batch, 2");
}
