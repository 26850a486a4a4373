#include "planner/search/comm_cost/search_run.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/error.hpp"

namespace dtfm::search {

SearchRun::SearchRun(const cost::CommCostModel& model, SearchOptions options)
    : model_(model), options_(std::move(options)), full_time_limit_(options_.time_limit) {
  constexpr double share_for_search = 0.5;
  if (!options_.begin) options_.begin = now_of(options_.ranks);
  if (full_time_limit_ && options_.prove) *options_.time_limit *= share_for_search;
}

bool SearchRun::must_stop() const {
  return is_stopped(options_) || time_share() >= 1;
}

Stopped SearchRun::reason_to_stop() const {
  return is_stopped(options_) ? Stopped::interrupted : Stopped::time_limit;
}

long long SearchRun::budget(long long fallback) {
  const bool endless = !options_.evaluations && options_.time_limit;
  budget_ = endless ? 0 : options_.evaluations.value_or(fallback);
  return endless ? std::numeric_limits<long long>::max() : budget_;
}

void SearchRun::offer(const Placement& placement, double cost, long long evaluations) {
  evaluations_ += evaluations;
  if (has_best() && cost >= best_cost_) return;
  best_ = placement;
  best_cost_ = cost;
  convergence_.push_back({evaluations_, cost});
}

void SearchRun::set_lower_bound(LowerBound bound) {
  if (bound.value >= lower_bound_.value) lower_bound_ = std::move(bound);
}

bool SearchRun::is_optimal() const {
  return has_best() && best_cost_ <= lower_bound_.value * (1 + 1e-9);
}

void SearchRun::report_progress() const {
  in_progress_ = 0;
  tick(0);
}

void SearchRun::tick(long long evaluations) const {
  const long long in_progress = in_progress_ += evaluations;
  if (!options_.on_progress || !has_best()) return;
  const std::unique_lock lock(progress_mutex_, std::try_to_lock);
  if (lock) options_.on_progress({evaluations_ + in_progress, budget_, best_cost_, lower_bound_.value});
}

SearchResult SearchRun::result(Stopped stopped) const {
  DTFM_ASSERT(has_best());
  const double deployed_cost = cost::comm_cost(model_, best_).total();
  DTFM_ASSERT(std::abs(deployed_cost - best_cost_) <= 1e-9 * deployed_cost);
  SearchResult result{best_,       cost::comm_cost(model_, best_), evaluations_, stopped, convergence_,
                      lower_bound_};
  result.convergence.back().cost = result.cost.total();
  result.lower_bound.value = std::min(result.lower_bound.value, result.cost.total());
  return result;
}

DeployedPlacement deploy(const cost::CommCostModel& model, const Placement& placement,
                         const StopFunction& stop) {
  DeployedPlacement result{cost::best_deployment(model, placement, stop), 0};
  result.cost = cost::comm_cost(model, result.placement).total();
  return result;
}

}  // namespace dtfm::search
