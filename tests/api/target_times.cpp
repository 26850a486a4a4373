// What trainers make of a plan, simulated.
#include "core/plan/target.hpp"
#include "planner/api/target_times.hpp"

#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::api;

namespace {

const TargetTime& row_of(const std::vector<TargetTime>& times, Target target) {
  return times[static_cast<std::size_t>(target)];
}

/// Four devices at two sites, and layers without tied parameters.
Problem chain_problem() {
  Problem problem{flat_topology({2, 2}, link_of(0, 1e6), link_of(0, 1e6)), chain_job(4, 1e6, 1e6), {}, {}};
  problem.job.training.global_batch = 8;
  problem.job.training.precision = Precision::fp32;
  return problem;
}

}  // namespace

// pytorch needs no barrier in fp32, and repeats whole layers or nothing.
TEST_CASE("a target has its own time for a plan with other settings") {
  Problem problem = chain_problem();
  problem.job.execution.recomputation = Recomputation::selective;
  Plan plan = plan_of(problem.job, 2, 2, 4);
  const std::vector<TargetTime> times = time_on_targets(problem, plan, 1);
  REQUIRE(times.size() == target_table().size());
  const TargetTime& pytorch = row_of(times, Target::pytorch);
  CHECK(pytorch.obstacle.empty());
  CHECK(pytorch.changes.size() == 2);
  Problem changed = problem;
  changed.job.execution.recomputation = Recomputation::none;
  changed.job.execution.iteration_barrier = false;
  Plan expected = plan;
  expected.execution = changed.job.execution;
  CHECK(pytorch.seconds == sim::simulate_undisturbed(changed, expected).seconds);
  CHECK(row_of(times, Target::megatron).obstacle.starts_with("megatron: the model is a chain of layers"));
  CHECK(row_of(times, Target::megatron).seconds == 0);
  for (const TargetTraits& target : target_table()) {
    const TargetTime alone = time_on_target(problem, plan, target.kind);
    const TargetTime& it = row_of(times, target.kind);
    CHECK(it.target == target.kind);
    CHECK(alone.seconds == it.seconds);
    CHECK(alone.obstacle == it.obstacle);
    CHECK(alone.changes == it.changes);
  }
}

TEST_CASE("a plan with the settings of a target runs there as planned") {
  Problem problem = chain_problem();
  problem.job.execution.iteration_barrier = false;
  const Plan plan = plan_of(problem.job, 2, 2, 4);
  const TargetTime pytorch = time_on_target(problem, plan, Target::pytorch);
  CHECK(pytorch.runs_as_planned());
  CHECK(pytorch.seconds == sim::simulate_undisturbed(problem, plan).seconds);
}

TEST_CASE("a plan that no target runs has an obstacle in each") {
  const Problem problem = chain_problem();
  const Plan idle = plan_of(problem.job, 2, 2, 0);
  for (const TargetTime& it : time_on_targets(problem, idle, 2)) {
    CHECK(!it.obstacle.empty());
    CHECK(it.seconds == 0);
  }
}

TEST_CASE("times in trainers do not depend on the number of threads and say if memory is exceeded") {
  Problem problem = chain_problem();
  const Plan plan = plan_of(problem.job, 2, 2, 4);
  problem.topology.edit().gpus[0].memory = Bytes(1e6);  // a stage has 2e6 parameters
  const std::vector<TargetTime> one = time_on_targets(problem, plan, 1),
                                four = time_on_targets(problem, plan, 4);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].seconds == four[i].seconds);
    CHECK(one[i].exceeds_memory == four[i].exceeds_memory);
    CHECK(one[i].exceeds_memory == one[i].obstacle.empty());
  }
}

// A ring of n replicas sends 2 n (n − 1) messages, each of which takes 350 bytes of memory.
TEST_CASE("a plan with too many messages is not simulated in trainers") {
  Problem problem = chain_problem();
  problem.topology = flat_topology({4000}, link_of(0, 1e6), link_of(0, 1e6));
  problem.job.training.global_batch = 4000;
  problem.job.execution.gradient_sync = GradientSync::ring;
  const TargetTime it = time_on_target(problem, plan_of(problem.job, 1, 4000, 1), Target::pytorch);
  CHECK(it.obstacle == "too many messages to simulate");
}
