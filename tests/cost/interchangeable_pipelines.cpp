// An estimator computes the cost of a pipeline once for all pipelines of interchangeable devices.
#include <memory>
#include <numeric>
#include <span>
#include <vector>

#include "core/base/rng.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_hosts.hpp"

using namespace dtfm;
using namespace dtfm::cost;

// Devices of two speeds on hosts of one to four, so that few pipelines differ in more than the numbers of
// their devices, and some only in who shares a host.
TEST_CASE("the cost of every pipeline is that without other pipelines and plans") {
  for (const Schedule schedule :
       {Schedule::gpipe, Schedule::one_f_one_b, Schedule::eager_one_f_one_b, Schedule::zero_bubble_h1}) {
    Problem problem = host_problem({4, 4, 2, 2, 1, 1, 1, 1}, 12);
    problem.job.execution.schedule = schedule;
    for (Device& device : problem.topology.edit().devices) device.speed = device.host % 2 == 0 ? 1 : 0.5;
    const IterationModel model(problem, {1, 2},
                               std::make_shared<const NetworkCost>(problem.topology, problem.constants));
    IterationEstimator estimator(model);
    InFlightByDevice in_flight(model.schedule, model.chunks);
    for (std::uint64_t seed = 0; seed < 300; ++seed) {
      CAPTURE(schedule, seed);
      Rng rng = Rng::for_task(seed, 0);
      std::vector<int> order(16);
      std::iota(order.begin(), order.end(), 0);
      rng.shuffle(std::span<int>(order));
      Plan plan{2, problem.job.execution, {}};
      std::size_t used = 0;
      for (const int micro_batches : {4, 4, 3, 1}) {
        Pipeline& pipeline = plan.pipelines.emplace_back(Pipeline{micro_batches, {}});
        const int cut = 1 + static_cast<int>(rng.below(3));
        for (const std::pair<int, int>& layers : {std::pair{0, cut}, std::pair{cut, 4}}) {
          Stage& stage = pipeline.stages.emplace_back(Stage{layers, {}});
          for (const std::size_t end = used + 1 + rng.below(2); used < end;)
            stage.devices.push_back(order[used++]);
        }
      }
      const IterationEstimate& estimate = estimator.estimate(plan);
      double deficit_bytes = 0;
      for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
        const PipelineCost alone =
            pipeline_cost(model, plan.pipelines[i], model.replicas_of(plan), 0, in_flight);
        CHECK(estimate.pipeline_s[i] == alone.time.end_s);
        CHECK(estimate.steady_s[i] == alone.time.steady_s);
        deficit_bytes += alone.deficit_bytes;
      }
      CHECK(estimate.deficit_bytes == deficit_bytes);
    }
  }
}
