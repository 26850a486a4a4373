// What the loss and the norm of the gradients, scalars that DeepSpeed all-reduces, add to an iteration.
#include "core/plan/scalar_reductions.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/iteration_seconds.hpp"

using namespace dtfm;

namespace {

constexpr double near = 0.01, far = 0.1;  // seconds

/// Pipelines of three stages, each in its own site. Layers take 1 s and 2 s; updates take no time, and
/// messages their latency.
Problem of_deepspeed(int replicas) {
  Problem problem{flat_topology(std::vector(at(replicas), 3), link_of(near, 1e9), link_of(far, 1e9)),
                  chain_job(3, 0, 0),
                  {},
                  uniform_roofline({.memory_forward = 0, .memory_backward = 0, .memory_head = 0})};
  problem.job.training.precision = Precision::fp32;
  problem.job.execution.messaging = Messaging::deepspeed;
  problem.job.execution.schedule = Schedule::one_f_one_b_blocking;
  problem.job.execution.gradient_sync = GradientSync::ring;
  return problem;
}

struct Norms {
  int over_stages = 0, over_replicas = 0;
  friend bool operator==(const Norms&, const Norms&) = default;
};

Norms norms(Precision precision, OptimizerSharding sharding, Optimizer optimizer = Optimizer::adam_16) {
  Problem problem = of_deepspeed(2);
  problem.job.training.precision = precision;
  problem.job.training.optimizer = optimizer;
  problem.job.execution.optimizer_sharding = sharding;
  Norms found;
  for (const ScalarReduction& it : scalar_reductions(problem.job, plan_of(problem.job, 3, 2, 1)).norms) {
    const bool is_of_stages = it.routes.front() == ScalarRoute{0, 1, 2, 0, 1};
    if (!is_of_stages) CHECK(it.routes.front() == ScalarRoute{2, 5, 2});
    CHECK(it.routes.size() == (is_of_stages ? 2 : 3));
    (is_of_stages ? found.over_stages : found.over_replicas) += it.count;
  }
  return found;
}

}  // namespace

TEST_CASE("a norm goes around the stages, and around the replicas if they partition it") {
  constexpr OptimizerSharding none = OptimizerSharding::none, zero1 = OptimizerSharding::zero1;
  CHECK(norms(Precision::fp32, none) == Norms{0, 0});
  CHECK(norms(Precision::fp32, zero1) == Norms{1, 1});
  CHECK(norms(Precision::fp16, none) == Norms{2, 0});
  CHECK(norms(Precision::fp16, zero1) == Norms{2, 2});
  CHECK(norms(Precision::bf16, zero1) == Norms{2, 2});
  CHECK(norms(Precision::bf16, zero1, Optimizer::sgd_12) == Norms{1, 0});
}

TEST_CASE("only trainers that reduce scalars wait for them") {
  Problem problem = of_deepspeed(2);
  problem.job.execution.messaging = Messaging::torch;
  const ScalarReductions none = scalar_reductions(problem.job, plan_of(problem.job, 3, 2, 1));
  CHECK(none.norms.empty());
  CHECK(none.loss.empty());
}

// One micro-batch: three forwards and backwards, four messages. The first stage is the last to end, and then
// has the loss of the last one, which ended before, after one more latency.
TEST_CASE("the first stage waits for the loss of the last") {
  Problem problem = of_deepspeed(1);
  const Plan plan = plan_of(problem.job, 3, 1, 1);
  CHECK(simulated_iteration_s(problem, plan) == Approx(9 + 5 * near));
  CHECK(estimated_iteration_s(problem, plan) == Approx(9 + 5 * near));
  problem.constants.message_overhead_s = 1;
  CHECK(simulated_iteration_s(problem, plan) == Approx(9 + 5 * (near + 1)));
  CHECK(estimated_iteration_s(problem, plan) == Approx(9 + 5 * (near + 1)));
}

// The gradients, without bytes, take two far messages, and two norms four near ones each over three stages.
// Then all devices are done at the same time: the loss takes two far messages and a near one.
TEST_CASE("estimate and simulation agree on scalars, and so does the simulation of one replica") {
  Problem problem = of_deepspeed(2);
  problem.job.training.precision = Precision::fp16;
  const Plan plan = plan_of(problem.job, 3, 2, 1);
  const double expected_s = 9 + 4 * near + 2 * far + 2 * 4 * near + 2 * far + near;
  CHECK(simulated_iteration_s(problem, plan) == Approx(expected_s));
  CHECK(replay_makespan(reduced_iteration_graph(problem, plan)) == Approx(expected_s));
  CHECK(estimated_iteration_s(problem, plan) == Approx(expected_s));
}
