#include "planner/search/comm_cost/anneal.hpp"

#include <algorithm>
#include <cmath>

#include "planner/cost/comm_cost/comm_cost_state.hpp"

namespace dtfm::search {
namespace {

constexpr long long stride = 256;            // moves between two checks of the clock
constexpr long long strides_a_tick = 64;     // strides between two progress reports
constexpr double critical_share = 0.3;       // share of swaps whose first device is on the critical path
constexpr int reorderings = 10;              // times that the stages are reordered
constexpr double segment_swap_share = 0.6;   // of moves; chosen by measurement, see evolutionary.cpp
constexpr int min_segment_length = 2;        // stages; a single one would be a swap
constexpr double min_relative_gain = 1e-12;  // smaller gains are rounding errors

class Annealing {
 public:
  Annealing(const SearchRun& run, const Placement& start, const CoolingSchedule& cooling, Rng& rng)
      : run_(run),
        cooling_(cooling),
        rng_(rng),
        state_(run.model(), start, cooling.guidance),
        best_{state_.placement(), state_.cost()},
        begin_(run.time_share()) {}

  AnnealedPlacement finish() {
    double progress = 0;
    long long last_order = 0;
    for (int orders = 1; progress < 1 && !run_.must_stop();) {
      const double temperature =
          cooling_.initial_temperature *
          std::pow(cooling_.final_temperature / cooling_.initial_temperature, progress);
      const long long moves = cooling_.time_share > 0 ? stride : std::min(stride, cooling_.moves - moves_);
      for (long long i = 0; i < moves; ++i) try_move(temperature);
      moves_ += moves;
      if (moves_ % (stride * strides_a_tick) == 0) run_.tick(stride * strides_a_tick);
      progress = progress_fraction();
      if (progress * reorderings < orders || moves_ - last_order < min_moves_between_reorderings()) continue;
      ++orders;
      last_order = moves_;
      reorder();
    }
    return {best_, moves_};
  }

 private:
  /// Reordering evaluates stages² / 2 matchings of about replicas² steps each; a swap takes about 4 ·
  /// replicas steps.
  long long min_moves_between_reorderings() const {
    const long long stages = model().stages, replicas = model().replicas;
    return stages * stages * replicas / 8;
  }

  double progress_fraction() const {
    if (cooling_.time_share > 0) return (run_.time_share() - begin_) / cooling_.time_share;
    return static_cast<double>(moves_) / static_cast<double>(cooling_.moves);
  }

  int pick_device() {
    const auto stages = static_cast<std::uint32_t>(model().stages);
    if (rng_.uniform() >= critical_share)
      return static_cast<int>(rng_.below(static_cast<std::uint32_t>(model().devices())));
    const auto which = static_cast<int>(rng_.below(stages));
    return state_.critical_device(which, rng_.below(2) == 1);
  }

  void try_move(double temperature) {
    const bool is_segment_swap =
        model().stages >= 2 * min_segment_length && rng_.uniform() < segment_swap_share;
    is_segment_swap ? try_segment_swap(temperature) : try_swap(temperature);
  }

  /// Metropolis criterion: a change to energy e is accepted if u < exp(−(e − energy) / T). Drawing u first
  /// turns this into a limit on e at which the evaluation can stop.
  double acceptance_limit(double temperature) {
    return state_.energy() - temperature * std::log(1 - rng_.uniform()) + min_relative_gain * best_.cost;
  }

  int below(int end) { return static_cast<int>(rng_.below(static_cast<std::uint32_t>(end))); }

  /// Devices that belong together move together: one at a time they would pass through placements that cost
  /// more than any temperature would accept.
  void try_segment_swap(double temperature) {
    const int length = min_segment_length + below(model().stages / 2 - min_segment_length + 1);
    int first = below(model().stages - 2 * length + 1), second = below(model().stages - 2 * length + 1);
    if (first > second) std::swap(first, second);
    const cost::StageSlot a{first, below(model().replicas)}, b{second + length, below(model().replicas)};
    const double limit = acceptance_limit(temperature);
    if (state_.evaluate_segment_swap(a, b, length, limit) >= limit) return;
    state_.swap_segments(a, b, length);
    keep_if_best();
  }

  void try_swap(double temperature) {
    const int a = pick_device(), b = below(model().devices());
    if (state_.group_of(a) == state_.group_of(b)) return;
    const double limit = acceptance_limit(temperature);
    const cost::EvaluatedSwap swap = state_.evaluate_swap(a, b, limit);
    if (swap.energy >= limit) return;
    state_.apply(swap);
    keep_if_best();
  }

  void keep_if_best() {
    if (state_.cost() >= best_.cost * (1 - min_relative_gain)) return;
    best_ = {state_.placement(), state_.cost()};
  }

  void reorder() {
    const Placement anew =
        cost::improve_deployment(model(), state_.placement(), [this] { return run_.must_stop(); });
    if (cost::comm_cost(model(), anew).total() < state_.cost() * (1 - min_relative_gain))
      state_ = cost::CommCostState(model(), anew, cooling_.guidance);
    keep_if_best();
  }

  const cost::CommCostModel& model() const { return run_.model(); }

  const SearchRun& run_;
  const CoolingSchedule& cooling_;
  Rng& rng_;
  cost::CommCostState state_;
  DeployedPlacement best_;
  double begin_;
  long long moves_ = 0;
};

}  // namespace

AnnealedPlacement anneal_placement(const SearchRun& run, const Placement& start,
                                   const CoolingSchedule& cooling, Rng& rng) {
  AnnealedPlacement result = Annealing(run, start, cooling, rng).finish();
  // Recomputed, because the state accumulates rounding errors over many swaps.
  result.best.cost = cost::comm_cost(run.model(), result.best.placement).total();
  const DeployedPlacement best =
      deploy(run.model(), result.best.placement, [&run] { return run.must_stop(); });
  if (best.cost <= result.best.cost) result.best = best;
  return result;
}

}  // namespace dtfm::search
