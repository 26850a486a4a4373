// Tests the search over tensor degrees with hosts that have different numbers of devices.
#include <vector>

#include "core/plan/shards.hpp"
#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/device_order.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_hosts.hpp"
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

}  // namespace

TEST_CASE("every host has the largest possible tensor-parallel groups in the order of the devices") {
  const Problem problem = host_problem({4, 2, 3, 1}, 4);
  const std::vector<int> order = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0};
  using Groups = std::vector<std::vector<int>>;
  CHECK(stage_tensor_groups(problem.topology, order, std::vector{1, 2, 4}) ==
        Groups{{9}, {7, 8}, {6}, {4, 5}, {0, 1, 2, 3}});
  CHECK(stage_tensor_groups(problem.topology, order, std::vector{2}) ==
        Groups{{7, 8}, {4, 5}, {2, 3}, {0, 1}});
}

TEST_CASE("a maximum degree by device limits the groups of its host") {
  const Problem problem = host_problem({4, 4}, 4);
  const std::vector<int> order = {0, 1, 2, 3, 4, 5, 6, 7}, max_degrees = {4, 4, 4, 4, 2, 2, 2, 2};
  using Groups = std::vector<std::vector<int>>;
  CHECK(stage_tensor_groups(problem.topology, order, std::vector{1, 2, 4}, max_degrees) ==
        Groups{{0, 1, 2, 3}, {4, 5}, {6, 7}});
}

// Hosts of three GPUs, none of which holds the whole model; two do.
TEST_CASE("a degree that leaves one device of every host unused is tried as well") {
  Problem problem = host_problem({3, 3}, 4);
  problem.job.parallelism.pipeline = 1;
  const auto needed = [&](int tensor) {
    const StageNeeds needs = IterationModel(problem, tensor).stages.needs({0, 4}, 1);
    return needs.state + needs.per_micro_batch + needs.working;
  };
  problem.topology.edit().gpus[0].memory = Bytes((needed(1) + needed(2)) / 2);
  const IterationSearchResult found = search_iteration(problem, search_options(5'000));
  REQUIRE_FALSE(found.finalists.empty());
  CHECK(found.finalists.front().plan.tensor == 2);
  CHECK(found.finalists.front().plan.pipelines.size() == 2);
}

TEST_CASE("the search gives the same plan for any number of threads") {
  const Problem problem = host_problem({4, 4, 2, 2, 1}, 16);
  IterationSearchOptions options = search_options(5'000);
  options.common.threads = 1;
  const Plan plan = search_iteration(problem, options).finalists.front().plan;
  for (const int threads : {2, 3}) {
    options.common.threads = threads;
    CHECK(search_iteration(problem, options).finalists.front().plan == plan);
  }
}
