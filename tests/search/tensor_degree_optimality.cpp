// The search over tensor degrees finds plans that are as good as those of an exhaustive search, or of
// searches with fixed degrees.
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/plan/shards.hpp"
#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/device_order.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_hosts.hpp"
#include "tests/support/plan_enumeration.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

namespace {

IterationSearchOptions search_options(long long evaluations) {
  IterationSearchOptions options;
  options.common.evaluations = evaluations;
  return options;
}

/// Returns the minimum over all uses of hosts of one or two devices, where each host of two is one group or
/// two.
double min_of_all(const Problem& problem, const std::vector<int>& hosts) {
  const IterationModel model(problem, {1, 2},
                             std::make_shared<const NetworkCost>(problem.topology, problem.constants));
  double least = 1e300;
  for (int cut = 0; cut < 1 << hosts.size(); ++cut) {
    std::vector<std::vector<int>> tensor_groups;
    int device = 0;
    bool is_new = true;
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      const bool is_cut = (cut >> host & 1) == 1;
      if (hosts[host] == 1 && is_cut) is_new = false;
      if (hosts[host] == 2 && !is_cut)
        tensor_groups.push_back({device, device + 1});
      else
        for (int i = 0; i < hosts[host]; ++i) tensor_groups.push_back({device + i});
      device += hosts[host];
    }
    if (!is_new) continue;
    const int count = static_cast<int>(tensor_groups.size());
    for (int stages = 1; stages <= std::min(count, model.stages.layers()); ++stages)
      for (int replicas = 1; replicas <= std::min(count / stages, problem.job.training.global_batch);
           ++replicas)
        least = std::min(least, min_of_shape(model, tensor_groups, stages, replicas));
  }
  return least;
}

}  // namespace

// A stage of several slow GPUs is as fast as one of fewer fast ones.
TEST_CASE("the degree may differ between GPU models") {
  int better = 0;
  for (const double speed : {0.5, 0.25}) {
    CAPTURE(speed);
    Problem problem = host_problem({4, 4, 4, 4}, 16);
    Topology& topology = problem.topology.edit();
    topology.gpus.push_back(topology.gpus.front());
    topology.gpus.back().name = "slow";
    topology.gpus.back().peak = FlopsPerSecond(topology.gpus.front().peak->value() * speed);
    for (Device& device : topology.devices)
      if (device.host >= 2) device.gpu = 1;
    Decisions decisions(problem);
    const auto jobs = decisions.degrees_by_gpu(*decisions.first());
    REQUIRE(!jobs.empty());
    for (const auto& job : jobs)
      for (const std::vector<int>& group : job->tensor_groups) {
        const int gpu = topology.devices[at(group.front())].gpu;
        CHECK(static_cast<int>(group.size()) <= job->max_degrees[at(gpu + 1)]);
      }
    const IterationSearchResult found = search_iteration(problem, search_options(10'000));
    double best_common = 1e300;
    for (const int degree : {1, 2, 4}) {
      Problem common = problem;
      common.job.parallelism.tensor = degree;
      common.job.automatic[Setting::tensor] = false;
      const PlanCandidate it = search_iteration(common, search_options(10'000)).finalists.front();
      if (it.deficit_bytes <= 0) best_common = std::min(best_common, it.iteration_s);
    }
    CHECK(found.finalists.front().iteration_s <= best_common * 1.001);
    better += found.finalists.front().iteration_s < best_common * 0.999;
  }
  CHECK(better > 0);
}

TEST_CASE("the search finds the optimum over all degrees of all stages") {
  for (const auto& hosts : {std::vector{2, 1}, std::vector{2, 1, 1}, std::vector{2, 2, 1, 1},
                            std::vector{2, 2}, std::vector{2, 2, 2}})
    for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
      CAPTURE(hosts, schedule);
      Problem problem = host_problem(hosts, 4);
      problem.job.execution.schedule = schedule;
      const IterationSearchResult found = search_iteration(problem, search_options(20'000));
      CHECK(found.finalists.front().iteration_s <= min_of_all(problem, hosts) * 1.0001);
      const Plan& plan = found.finalists.front().plan;
      CHECK(plan.tensor == tensor_degrees(plan).back());
    }
}

TEST_CASE("degrees per stage are never worse than the best single one and can be better") {
  int better = 0;
  for (const auto& hosts : {std::vector{2, 2, 1, 1}, std::vector{4, 4, 2, 2, 1}, std::vector{4, 2, 2, 2}}) {
    CAPTURE(hosts);
    Problem problem = host_problem(hosts, 16);
    const double open = search_iteration(problem, search_options(20'000)).finalists.front().iteration_s;
    double least = 1e300;
    problem.job.automatic[Setting::tensor] = false;
    for (const int tensor : {1, 2, 4}) {
      problem.job.parallelism.tensor = tensor;
      if (tensor > hosts.front()) continue;
      least =
          std::min(least, search_iteration(problem, search_options(20'000)).finalists.front().iteration_s);
    }
    CHECK(open <= least * 1.0001);
    if (open < least * 0.99) ++better;
  }
  CHECK(better > 0);
}
