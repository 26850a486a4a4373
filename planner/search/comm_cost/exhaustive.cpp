// Evaluates every partition into equal groups once; the reference for all other strategies on small networks.
#include <fmt/format.h>

#include "core/base/error.hpp"
#include "planner/cost/comm_cost/shortest_path.hpp"
#include "planner/search/comm_cost/random_placement.hpp"
#include "planner/search/comm_cost/search_run.hpp"

namespace dtfm::search {
namespace {

constexpr double max_partitions = 2e6;

/// Number of partitions, n! / (replicas!^stages · stages!), as the product of the ways to fill one group
/// after another.
double partitions(int stages, int replicas) {
  double count = 1;
  for (int left = stages * replicas; left > 0; left -= replicas)
    for (int i = 1; i < replicas; ++i) count = count * (left - i) / i;
  return count;
}

class Enumeration {
 public:
  explicit Enumeration(SearchRun& run)
      : run_(run),
        budget_(run.budget(static_cast<long long>(max_partitions))),
        used_(static_cast<std::size_t>(run.model().devices())) {}

  /// Fills one group after another. The first remaining device opens a group, so that no partition occurs
  /// twice. Returns false if stopped.
  bool extend(int smallest) {
    const int n = run_.model().devices();
    const auto filled = static_cast<int>(order_.size());
    if (filled == n) return evaluate();
    if (filled % run_.model().replicas == 0) {
      int first = 0;
      while (used_[static_cast<std::size_t>(first)]) ++first;
      return with(first);
    }
    for (int device = smallest; device < n; ++device)
      if (!used_[static_cast<std::size_t>(device)] && !with(device)) return false;
    return true;
  }

 private:
  bool with(int device) {
    used_[static_cast<std::size_t>(device)] = true;
    order_.push_back(device);
    const bool is_complete = extend(device + 1);
    order_.pop_back();
    used_[static_cast<std::size_t>(device)] = false;
    return is_complete;
  }

  /// Checks the budget before evaluating, so that a budget that is just sufficient completes the enumeration.
  bool evaluate() {
    if (run_.has_best() && (run_.must_stop() || run_.evaluations() >= budget_)) return false;
    const DeployedPlacement candidate = deploy(run_.model(), placement_of(run_.model(), order_));
    run_.offer(candidate.placement, candidate.cost, 1);
    if (run_.evaluations() % 1024 == 0) run_.report_progress();
    return true;
  }

  SearchRun& run_;
  long long budget_;
  std::vector<char> used_;
  std::vector<int> order_;
};

}  // namespace

Stopped run_exhaustive(SearchRun& run) {
  const cost::CommCostModel& model = run.model();
  if (const double count = partitions(model.stages, model.replicas); count > max_partitions)
    throw Error(
        "--strategy exhaustive",
        fmt::format(
            "{} × {} devices have {:.3g} partitions, more than {:.0f}; use the default strategy with --prove",
            model.stages, model.replicas, count, max_partitions));
  if (Enumeration(run).extend(0)) {
    // Beyond that many stages their order is only a heuristic's, so nothing is proven.
    if (model.stages <= cost::max_exact_path_nodes)
      run.set_lower_bound({run.best_cost(), "every partition was evaluated"});
    return Stopped::complete;
  }
  return run.must_stop() ? run.reason_to_stop() : Stopped::evaluations;
}

}  // namespace dtfm::search
