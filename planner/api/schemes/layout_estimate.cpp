#include "planner/api/schemes/layout_estimate.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/parallel.hpp"
#include "core/plan/shards.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::api {
namespace {

using Estimates = std::vector<std::optional<LayoutEstimate>>;

bool can_estimate(const Layout& layout) {
  const ExecutionConfig& execution = layout.plan.execution;
  return !layout.skipped && can_shard(execution) && !execution.optimizer_offload;
}

/// Whether the estimates of both need the same model: flushes are those of the plan.
bool have_equal_models(const Layout& a, const Layout& b) {
  ExecutionConfig one = a.plan.execution, other = b.plan.execution;
  one.flush = other.flush = {};
  return a.plan.tensor == b.plan.tensor && one == other;
}

/// Iterations without synchronization take as long as the pipelines and the updates.
LayoutEstimate average(const cost::IterationEstimate& estimate, int sync_every) {
  const double without = estimate.pipelines_s + estimate.update_s + estimate.overhead_s;
  return {without + std::max(0.0, estimate.iteration_s - without) / sync_every, estimate.deficit_bytes};
}

/// Estimates layouts with one model.
void estimate_run(const Problem& problem, const std::shared_ptr<const cost::NetworkCost>& network,
                  const Layout* first, const Layout* end, const StopFunction& stop,
                  std::optional<LayoutEstimate>* estimates) {
  if (!can_estimate(*first)) return;
  Problem own = problem;
  own.job = first->job;
  const cost::IterationModel model(own, {first->plan.tensor}, network);
  for (const Layout* it = first; it != end && !is_stopped(stop); ++it, ++estimates) {
    const std::vector<int> devices = pipeline_major(it->plan);
    if (std::any_of(devices.begin(), devices.end(),
                    [&](int device) { return !model.unknown(device).empty(); }))
      continue;
    try {
      *estimates = average(cost::estimate_iteration(model, it->plan), it->sync_every);
    } catch (const Error&) {  // the simulator says why the plan cannot run
    }
  }
}

}  // namespace

std::vector<std::optional<LayoutEstimate>> estimate_layouts(const Problem& problem,
                                                            const std::vector<Layout>& layouts, int threads,
                                                            const StopFunction& stop) {
  Estimates estimates(layouts.size());
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < layouts.size(); ++i)
    if (i == 0 || !have_equal_models(layouts[i - 1], layouts[i])) begins.push_back(i);
  const auto network = std::make_shared<const cost::NetworkCost>(problem.topology, problem.constants);
  parallel_map(static_cast<int>(begins.size()), threads, [&](int run) {
    const std::size_t begin = begins[at(run)];
    const std::size_t end = at(run) + 1 < begins.size() ? begins[at(run) + 1] : layouts.size();
    try {
      estimate_run(problem, network, layouts.data() + begin, layouts.data() + end, stop,
                   estimates.data() + begin);
    } catch (const Error&) {  // the simulator says why the job cannot run
    }
    return 0;
  });
  return estimates;
}

}  // namespace dtfm::api
