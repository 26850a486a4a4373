// The estimated time of an iteration under churn, by hand and compared with the simulator.
#include "planner/search/iteration_time/churn_loss.hpp"

#include <cmath>

#include "planner/search/iteration_time/plan_score.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/chain_simulation.hpp"

using namespace dtfm;
using namespace dtfm::search;

namespace {

/// Pipelines with four micro-batches of 3 s: weights and optimizer state of a layer are 12 MB, links have
/// 1 MB/s.
struct ChurnedRun : ChainRun {
  Churn churn;

  ChurnedRun(int stages, int replicas) : ChainRun(stages, replicas, 4) {
    churn.horizon_s = 1000;
    churn.detection_s = 10;
    churn.changes = {{100, 1, false}, {300, 1, true}};
  }
  ChurnSlowdown::Share share() const { return ChurnLoss(problem, {churn}).of(plan).scenarios.front(); }
};

}  // namespace

TEST_CASE("the share of a run that is worked, by policy") {
  ChurnedRun it(1, 2);
  // Alone, a replica takes twice as long: half of 200 − 10 s. Then all wait 12 s. Half an iteration is
  // aborted, and half of a long one passes before the device takes part.
  CHECK(it.share().work == Approx((100 + 190 / 2.0 + 700 - 12) / 1000));
  CHECK(it.share().lost == Approx((0.5 + 0.5) / 1000));
  it.churn.changes[0].is_announced = true;
  CHECK(it.share().work == Approx((100 + 200 / 2.0 + 700 - 12) / 1000));
  it.churn.changes[0].is_announced = false;
  it.churn.resumes_iteration = true;
  CHECK(it.share().lost == Approx(0.5 / 1000));
  it.churn.resumes_iteration = false;
  it.churn.waits_for_all = true;
  CHECK(it.share().work == Approx((100 + 700 - 12) / 1000.0));
  CHECK(it.share().lost == Approx(0.5 / 1000));
  it.churn.waits_for_all = false;
  it.churn.changes = {{0, 1, false}, {300, 1, true}};  // not a failure
  CHECK(it.share().work == Approx((300 / 2.0 + 700 - 12) / 1000));
}

// Of two stages and four micro-batches, 4 of 5 slots of the pipeline are steady: twice the micro-batches take
// 1.8 times as long.
TEST_CASE("warm-up and cool-down do not grow with the micro-batches") {
  ChurnedRun it(2, 2);
  CHECK(it.share().work == Approx((100 + 190 / 1.8 + 700 - 12) / 1000));
}

TEST_CASE("a run with lost state loads a checkpoint or ends") {
  ChurnedRun it(1, 1);
  it.churn.changes = {{100, 0, false}, {300, 0, true}};
  CHECK(it.share().work == Approx(100 / 1000.0));
  CHECK(it.share().lost == Approx(0.5 / 1000));
  it.churn.checkpoint = ChurnCheckpoint{2e6, 0};  // 12 MB in 6 s
  CHECK(it.share().work == Approx((100 + 700 - 6) / 1000.0));
  it.churn.checkpoint = ChurnCheckpoint{2e6, 54};  // written in 6 s of every 60; half a period is lost
  CHECK(it.share().work == Approx((100 + 700 - 6 - 27) * 0.9 / 1000.0));
}

TEST_CASE("a spare replaces a device while there is one, and a device that is not used costs nothing") {
  ChurnedRun it(1, 2);
  it.problem.topology = flat_topology({4}, link_of(0, 1e6), link_of(0, 1e6));
  it.churn.is_spare.assign(4, true);
  CHECK(it.share().work == Approx((1000 - 10 - 12) / 1000.0));
  it.churn.changes = {{50, 2, false}, {60, 3, false}};
  CHECK(it.share().work == 1);
  it.churn.changes.push_back({100, 1, false});
  CHECK(it.share().work == Approx((100 + 890 / 2.0) / 1000));
}

TEST_CASE("a plan that completes nothing has a finite score") {
  ChurnedRun it(1, 1);
  it.churn.changes = {{0, 0, false}};
  const PlanScore score =
      PlanScore(Objective::iteration_time, it.problem.topology)
          .with_churn(std::make_shared<const ChurnLoss>(it.problem, std::vector{it.churn}));
  const double worst = score.of(12, 0, 0, {}, score.churn_of(it.plan));
  CHECK(std::isfinite(worst));
  CHECK(worst > 1e6);
  CHECK(score.is_affected_by_churn(0));
}

TEST_CASE("the estimate under churn is close to the simulator") {
  for (const int stages : {1, 2, 4})
    for (const int replicas : {1, 2, 3})
      for (const FailurePolicy policy : {FailurePolicy::restart_without_pipeline, FailurePolicy::wait,
                                         FailurePolicy::restart, FailurePolicy::drop_pipeline}) {
        if (replicas == 1 && policy == FailurePolicy::drop_pipeline) continue;
        CAPTURE(stages, replicas, name_of(policy));
        ChurnedRun it(stages, replicas);
        const int last = stages * replicas - 1;
        it.scenario.horizon_s = it.churn.horizon_s = 5000;
        it.scenario.on_failure = policy;
        it.scenario.detection_s = it.churn.detection_s;
        it.scenario.checkpoint = Checkpoint{16e6, {}, 100};
        it.churn.checkpoint = ChurnCheckpoint{2e6, 100};
        it.churn.changes = {{500, last, false}, {900, last, true}, {2000, 0, false}, {3500, 0, true}};
        for (const Churn::Change& change : it.churn.changes)
          it.scenario.events.push_back({change.date_s, change.device,
                                        change.joins ? DeviceEvent::Kind::join : DeviceEvent::Kind::leave});
        it.churn.waits_for_all = policy == FailurePolicy::wait;
        it.churn.loads_checkpoint = policy == FailurePolicy::restart;
        it.churn.resumes_iteration = policy == FailurePolicy::drop_pipeline;
        const SimReport report = it.run(1);
        const double simulated_s = report.length_s / static_cast<double>(report.iterations.size());
        const double iteration_s = undisturbed_seconds(it.problem, it.plan);
        CHECK(ChurnLoss(it.problem, {it.churn}).of(it.plan).of(iteration_s) ==
              Approx(simulated_s).epsilon(0.03));
      }
}
