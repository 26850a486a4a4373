// The best of many random balanced partitions.
#include <algorithm>

#include "core/base/work.hpp"
#include "core/plan/placement_codec.hpp"
#include "planner/search/comm_cost/random_placement.hpp"
#include "planner/search/comm_cost/search_run.hpp"

namespace dtfm::search {

Stopped run_random(SearchRun& run) {
  constexpr int batch = 64;
  const long long budget = run.budget(1'000);
  for (long long begin = 0; begin < budget; begin += batch) {
    const int count = static_cast<int>(std::min<long long>(batch, budget - begin));
    const auto found = distributed_map(count, run.options(), [&](int i) {
      Rng rng = Rng::for_task(run.options().seed, static_cast<std::uint64_t>(begin + i));
      return deploy(run.model(), random_placement(run.model(), rng));
    });
    for (const DeployedPlacement& candidate : found) run.offer(candidate.placement, candidate.cost, 1);
    run.report_progress();
    if (run.must_stop()) return run.reason_to_stop();
  }
  return Stopped::evaluations;
}

}  // namespace dtfm::search
