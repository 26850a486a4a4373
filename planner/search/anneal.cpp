#include "planner/search/anneal.hpp"

#include <cmath>

#include "planner/cost/comm_cost_state.hpp"

namespace dtfm {
namespace {

constexpr int stride = 256;             // swaps between two looks at the clock
constexpr int strides_a_tick = 64;      // between two reports of progress
constexpr double critical_share = 0.3;  // of swaps that begin with a device on which the cost depends
constexpr int reorderings = 10;         // times that the order of the stages is made anew
constexpr double least_gain = 1e-12;    // relative: less is rounding

class Annealing {
 public:
  Annealing(const SearchRun& run, const Placement& start, const Cooling& cooling, Rng& rng)
      : run_(run),
        cooling_(cooling),
        rng_(rng),
        state_(run.model(), start, cooling.guidance),
        best_{state_.placement(), state_.cost()},
        begin_(run.time_share()) {}

  Annealed finish() {
    double progress = 0;
    long long last_order = 0;
    for (int orders = 1; progress < 1 && !run_.must_stop();) {
      const double temperature = cooling_.hottest * std::pow(cooling_.coldest / cooling_.hottest, progress);
      for (int i = 0; i < stride; ++i) swap_some(temperature);
      swaps_ += stride;
      if (swaps_ % (stride * strides_a_tick) == 0) run_.tick(stride * strides_a_tick);
      progress = progressed();
      if (progress * reorderings < orders || swaps_ - last_order < swaps_worth_an_order()) continue;
      ++orders;
      last_order = swaps_;
      reorder();
    }
    return {{best_.placement, best_.cost}, swaps_};
  }

 private:
  /// An order prices stages² / 2 matchings of about replicas² steps, a swap takes some 4 · replicas steps.
  long long swaps_worth_an_order() const {
    const long long stages = run_.model().stages, replicas = run_.model().replicas;
    return stages * stages * replicas / 8;
  }

  double progressed() const {
    if (cooling_.time_share > 0) return (run_.time_share() - begin_) / cooling_.time_share;
    return static_cast<double>(swaps_) / static_cast<double>(cooling_.swaps);
  }

  int some_device() {
    const auto stages = static_cast<std::uint32_t>(run_.model().stages);
    if (rng_.uniform() >= critical_share)
      return static_cast<int>(rng_.below(static_cast<std::uint32_t>(run_.model().devices())));
    const auto which = static_cast<int>(rng_.below(stages));
    return state_.critical_device(which, rng_.below(2) == 1);
  }

  /// The limit is drawn first (Metropolis: accept when u < exp(−Δ / T)), so that pricing can stop at it.
  void swap_some(double temperature) {
    const int a = some_device();
    const auto b = static_cast<int>(rng_.below(static_cast<std::uint32_t>(run_.model().devices())));
    if (state_.group_of(a) == state_.group_of(b)) return;
    const double limit =
        state_.energy() - temperature * std::log(1 - rng_.uniform()) + least_gain * best_.cost;
    const PricedSwap swap = state_.price(a, b, limit);
    if (swap.energy >= limit) return;
    state_.apply(swap);
    keep_if_best();
  }

  void keep_if_best() {
    if (state_.cost() >= best_.cost * (1 - least_gain)) return;
    best_ = {state_.placement(), state_.cost()};
  }

  void reorder() {
    const Deployed anew = deployed(run_.model(), state_.placement());
    if (anew.cost < state_.cost() * (1 - least_gain))
      state_ = CommCostState(run_.model(), anew.placement, cooling_.guidance);
    keep_if_best();
  }

  const SearchRun& run_;
  const Cooling& cooling_;
  Rng& rng_;
  CommCostState state_;
  Deployed best_;
  double begin_;
  long long swaps_ = 0;
};

}  // namespace

Annealed annealed(const SearchRun& run, const Placement& start, const Cooling& cooling, Rng& rng) {
  Annealed result = Annealing(run, start, cooling, rng).finish();
  result.best.cost = comm_cost(run.model(), result.best.placement).total();  // without the rounding of swaps
  const Deployed best = deployed(run.model(), result.best.placement);
  if (best.cost <= result.best.cost) result.best = best;
  return result;
}

}  // namespace dtfm
