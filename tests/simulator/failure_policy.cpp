#include "simulator/run/failure_policy.hpp"

#include <set>
#include <string_view>
#include <vector>

#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// Returns pipelines of two stages on devices 0, 1 | 2, 3 | 4, 5.
Plan three_pipelines(std::vector<int> micro_batches = {4, 4, 4}) {
  Plan plan;
  plan.execution.schedule = Schedule::gpipe;
  for (int i = 0; i < 3; ++i)
    plan.pipelines.push_back(
        {micro_batches[static_cast<std::size_t>(i)], {{{0, 1}, {2 * i}}, {{1, 2}, {2 * i + 1}}}});
  return plan;
}

std::vector<int> micro_batches(const Plan& plan) {
  std::vector<int> result;
  for (const Pipeline& pipeline : plan.pipelines) result.push_back(pipeline.micro_batches);
  return result;
}

Decision decide(FailurePolicy policy, const std::vector<int>& gone, const std::vector<int>& spares) {
  std::vector<bool> there(8, true);
  for (const int device : gone) there[static_cast<std::size_t>(device)] = false;
  const Plan plan = three_pipelines();
  return traits(policy).decide({plan, there, spares});
}
using Flags = std::vector<bool>;

}  // namespace

TEST_CASE("wait runs all pipelines or none") {
  CHECK(decide(FailurePolicy::wait, {}, {}).running == Flags{true, true, true});
  CHECK(decide(FailurePolicy::wait, {2}, {6}).running == Flags{false, false, false});
  CHECK(decide(FailurePolicy::wait, {6}, {}).running == Flags{true, true, true});
}

TEST_CASE("each failure policy has one name") {
  std::set<std::string_view> names;
  for (const FailurePolicyTraits& policy : failure_policy_table()) {
    CHECK(names.insert(policy.name).second);
    CHECK(&traits(policy.kind) == &policy);
    CHECK(name_of(policy.kind) == policy.name);
    CHECK(policy.decide != nullptr);
  }
}

TEST_CASE("restart-without-pipeline runs the complete pipelines") {
  CHECK(decide(FailurePolicy::restart_without_pipeline, {2, 5}, {6, 7}).running == Flags{true, false, false});
  CHECK(decide(FailurePolicy::restart_without_pipeline, {0, 2, 5}, {}).running == Flags{false, false, false});
}

TEST_CASE("an available spare replaces a failed device and the first spare is used first") {
  Decision decision = decide(FailurePolicy::spare, {2}, {7, 6});
  CHECK(decision.running == Flags{true, true, true});
  CHECK(decision.plan.pipelines[1].stages[0].devices == std::vector<int>{7});
  CHECK(decision.plan.pipelines[1].stages[1].devices == std::vector<int>{3});
  // 7 has failed, too; 6 replaces 0, and no spare is left for 5.
  decision = decide(FailurePolicy::spare, {0, 5, 7}, {7, 6});
  CHECK(decision.running == Flags{true, true, false});
  CHECK(pipeline_major(decision.plan) == std::vector<int>{6, 1, 2, 3, 4, 5});
}

TEST_CASE("a spare takes over all stages of an interleaved device") {
  Plan plan;
  plan.pipelines = {{2, {{{0, 1}, {0}}, {{1, 2}, {1}}, {{2, 3}, {0}}, {{3, 4}, {1}}}}};
  const std::vector<bool> there{false, true, true};
  const std::vector<int> spares{2};
  const Decision decision = traits(FailurePolicy::spare).decide({plan, there, spares});
  CHECK(pipeline_major(decision.plan) == std::vector<int>{2, 1, 2, 1});
  CHECK(decision.running == Flags{true});
}

TEST_CASE("micro-batches of paused pipelines are redistributed in proportion") {
  const Flags without_second{true, false, true};
  CHECK(micro_batches(running_plan(three_pipelines(), {true, true, true})) == std::vector<int>{4, 4, 4});
  CHECK(micro_batches(running_plan(three_pipelines(), without_second)) == std::vector<int>{6, 6});
  // 9 in shares of 3 and 1: 6.75 and 2.25; the one that is left goes to the larger remainder.
  CHECK(micro_batches(running_plan(three_pipelines({3, 5, 1}), without_second)) == std::vector<int>{7, 2});
  // 15 in equal shares: 7.5 each; the one that is left goes to the first.
  CHECK(micro_batches(running_plan(three_pipelines({5, 5, 5}), without_second)) == std::vector<int>{8, 7});
  // All belonged to the paused pipeline: 7 are split evenly.
  CHECK(micro_batches(running_plan(three_pipelines({0, 7, 0}), without_second)) == std::vector<int>{4, 3});
  // Interleaved pipelines of two devices need even numbers: 9 pairs in equal shares.
  Plan interleaved = three_pipelines({6, 6, 6});
  interleaved.execution.schedule = Schedule::interleaved;
  CHECK(micro_batches(running_plan(interleaved, without_second)) == std::vector<int>{10, 8});
}
