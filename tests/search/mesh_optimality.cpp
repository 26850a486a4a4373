// The search over tensor, context and expert degrees finds the optimum of all degrees and plans of tiny
// problems.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/base/rng.hpp"
#include "core/plan/stage_mesh.hpp"
#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/iteration_search.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_hosts.hpp"
#include "tests/support/plan_enumeration.hpp"

using namespace dtfm;
using namespace dtfm::cost;
using namespace dtfm::search;

namespace {

/// Two to four layers with four experts, on one or two hosts with four GPUs in all, of random memory, links
/// and micro-batches of 2 or 4 sequences.
Problem random_problem(std::uint64_t number) {
  Rng rng = Rng::for_task(11, number);
  Problem problem = host_problem(rng.below(2) == 0 ? std::vector{4} : std::vector{2, 2}, 8);
  Job& job = problem.job;
  Transformer model{2 + static_cast<int>(rng.below(3)), 64, 4, 128, 100};
  model.experts = {4, 1 + static_cast<int>(rng.below(2)), 64 << rng.below(3)};
  job.model = model;
  job.execution.micro_batch = 2 << rng.below(2);
  job.execution.gradient_sync = GradientSync::ring;
  job.automatic[Setting::expert] = job.automatic[Setting::context] = true;
  job.listed[Setting::context] = {1, 2, 4};
  Topology& topology = problem.topology.edit();
  auto& links = std::get<RuleLinks>(topology.links).links;
  links[2].bandwidth = BitsPerSecond(8e6 * (1 << rng.below(6)));
  links[2].shared_by_sender = rng.below(2) == 0;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}})
    links[i].bandwidth = BitsPerSecond(8e6 * (1 << rng.below(3)));
  topology.gpus[0].memory = Bytes(4e6 * (1 << rng.below(4)));
  return problem;
}

/// Groups of 1, 2 or 4 consecutive devices; hosts have two devices or four.
std::vector<std::vector<int>> groups_of(int size) {
  std::vector<std::vector<int>> groups;
  for (int first = 0; first < 4; first += size) {
    groups.emplace_back();
    for (int i = 0; i < size; ++i) groups.back().push_back(first + i);
  }
  return groups;
}

/// The minimum over all degrees, placements and splits.
double min_of_all(const Problem& problem) {
  const auto network = std::make_shared<const NetworkCost>(problem.topology, problem.constants);
  const int host = problem.topology->devices[3].host == 0 ? 4 : 2;
  double least = 1e300;
  for (int tensor = 1; tensor <= host; tensor *= 2)
    for (const int context : {1, 2, 4})
      for (const int expert : {1, 2, 4}) {
        Problem decided = problem;
        decided.job.parallelism.tensor = tensor;
        decided.job.execution.context = context;
        decided.job.execution.expert = expert;
        fit_stage_data(decided.job);
        const int size = devices_per_stage(decided.job);
        if (size > problem.topology->size() || !mesh_obstacle(decided.job).empty()) continue;
        const IterationModel model(decided, {size}, network);
        const auto groups = groups_of(size);
        const int count = static_cast<int>(groups.size()), layers = model.stages.layers();
        for (int stages = 1; stages <= std::min(count, layers); ++stages)
          for (int replicas = 1; replicas <= std::min(count / stages, micro_batch_count(decided.job));
               ++replicas)
            least = std::min(least, min_of_shape(model, groups, stages, replicas));
      }
  return least;
}

}  // namespace

TEST_CASE("alternatives of a job with mixed tensor degrees have no expert or context parallelism") {
  const Problem problem = random_problem(0);
  Decisions decisions(problem);
  const auto mixed = decisions.with_any_degree(*decisions.first());
  REQUIRE(mixed);
  const auto alternatives = decisions.alternatives(*mixed);
  CHECK_FALSE(alternatives.empty());
  for (const auto& it : alternatives) {
    CHECK(it->problem.job.execution.expert == 1);
    CHECK(it->problem.job.execution.token_parts() == 1);
  }
}

TEST_CASE("the search finds the optimum over all degrees of a stage") {
  int fitting = 0, experts = 0, sequences = 0;
  for (std::uint64_t number = 0; fitting < 40; ++number) {
    REQUIRE(number < 100);
    CAPTURE(number);
    const Problem problem = random_problem(number);
    const double least = min_of_all(problem);
    if (least == 1e300) continue;
    ++fitting;
    IterationSearchOptions options;
    options.common.evaluations = 20'000;
    const PlanCandidate found = search_iteration(problem, options).finalists.front();
    CHECK(found.deficit_bytes <= 0);
    CHECK(found.iteration_s <= least * (1 + 1e-9));
    experts += found.plan.execution.expert > 1;
    sequences += found.plan.execution.context > 1;
  }
  for (const int divided : {experts, sequences}) {
    CHECK(divided > 3);
    CHECK(divided < 37);
  }
}
