#include "planner/search/iteration_time/annealing_rounds.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/search/iteration_time/evolution_epochs.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "planner/search/iteration_time/plan_anneal.hpp"
#include "planner/search/iteration_time/plan_codec.hpp"
#include "planner/search/iteration_time/ring_order.hpp"
#include "planner/search/iteration_time/search_effort.hpp"

namespace dtfm::search {
namespace {

// Chosen by hand, not tuned.
constexpr std::size_t chains_of_decisions = 8, min_chains = 4, later_chains = 3, other_starts = 8;
// Of different shapes and decisions, for the first annealing. Fewer leave out shapes that are best only after
// annealing, each with its own micro-batch.
constexpr std::size_t starts_of_decisions = 48;
constexpr double first_share = 0.5;  // of a round's moves, for the first annealing of all chains
constexpr double order_share =
    0.1;  // of annealing's steps, to improve the order of stages; a swap takes several times those of a move
constexpr int default_rounds = 4;
// Up to so many groups, the order of stages is improved first, and annealing does not end early; up to so
// many, no other starts of a shape join later, since they gave no better plans in the mean
// (`benchmark_tiny_problems medium 45 68`).
constexpr std::size_t few_groups = 64, single_start_groups = 16;
constexpr int max_idle_rounds = 2;  // successive rounds without a better plan; ends the default rounds
constexpr int max_doublings = 40;   // of a round's moves: beyond any practical limit
constexpr std::uint64_t first_late_stream = 1'000'000;  // of annealing after evolution: beyond any round
constexpr double initial_temperature = 0.02, later_initial_temperature = 0.005, final_temperature = 0.0002;

class AnnealingRounds {
 public:
  AnnealingRounds(SearchState& state, DecisionSearch& decision_search)
      : state_(state), decision_search_(decision_search) {}

  void run() {
    if (state_.is_over()) return;
    const bool is_limited = state_.options.common.evaluations || state_.options.common.time_limit;
    const bool uses_full_budget = is_limited && state_.options.uses_full_budget;
    find_starts();
    if (state_.is_over()) return;
    int idle_rounds = 0;
    for (int round = 0; round < default_rounds && !ends_early(idle_rounds); ++round) {
      const PlanCandidate before = state_.pool.best();
      if (!anneal_round(round)) return;
      idle_rounds = is_better(state_.pool.best(), before) ? 0 : idle_rounds + 1;
    }
    for (int round = default_rounds;; ++round) {
      if (state_.decisions.has_undecided() && decision_search_.try_alternatives()) {
        starts_ = chains_from(state_.pool.best_diverse(chains_of_decisions));
        state_.record_convergence();
      }
      evolve_and_decide(static_cast<std::uint64_t>(round));
      if (!uses_full_budget || state_.is_over() || !anneal_round(round)) return;
    }
  }

 private:
  struct Chain {
    PlanCandidate start, reached;
  };

  std::vector<PlanCandidate> plans_to_anneal() const {
    const SearchEffort effort = default_effort(state_.pool.best().job->problem.topology->size());
    std::vector<PlanCandidate> plans = state_.pool.best_per_shape(effort.chains);
    if (state_.decisions.has_undecided()) add_missing(plans, state_.pool.best_diverse(starts_of_decisions));
    return plans;
  }

  void find_starts() {
    const std::size_t groups = state_.pool.best().job->tensor_groups.size();
    if (groups <= few_groups) improve_stage_orders();
    starts_ = chains_from(plans_to_anneal());
    if (groups > single_start_groups) screened_ = state_.pool.best_diverse(state_.max_kept);
    std::erase_if(screened_, [&](const PlanCandidate& it) { return is_start_of(it, starts_); });
  }

  /// So that the best plans of a shape are chosen after, not before, their stages have the best order.
  void improve_stage_orders() {
    const std::vector<PlanCandidate> plans = state_.pool.best_diverse(state_.max_kept);
    DecidedJobs jobs;
    for (const PlanCandidate& it : plans) jobs.push_back(it.job);
    state_.offer(static_cast<int>(plans.size()), jobs, [&](int i, const PlanScore& score) {
      const double parts = static_cast<double>(plans.size()) / order_share;
      return std::vector{
          improve_stage_order(plans[at(i)], score, affordable_evaluations(plans[at(i)], parts))};
    });
    state_.record_convergence();
  }

  bool ends_early(int idle_rounds) const {
    return idle_rounds >= max_idle_rounds && !state_.options.keeps_pareto_front &&
           state_.pool.best().job->tensor_groups.size() > few_groups;
  }

  /// Every round after the default ones has twice as many moves as the one before. Returns false if the
  /// search is over.
  bool anneal_round(int round) {
    const int doublings = std::clamp(round - default_rounds + 1, 0, max_doublings);
    const double share = std::ldexp(1.0, doublings) / default_rounds;
    const std::uint64_t stream = 2 * static_cast<std::uint64_t>(round);
    const bool has_moved = anneal(starts_, first_share * share, initial_temperature, stream + 1);
    if (!has_moved || state_.is_over()) return false;
    std::vector<Chain> later = chains_from(state_.pool.best_diverse(later_chains));
    anneal(later, (1 - first_share) * share, later_initial_temperature, stream + 2);
    if (state_.is_over()) return false;
    keep_best(starts_, std::max(min_chains, starts_.size() / 2));
    add_other_starts(starts_);
    return true;
  }

  /// Skips plans whose pipelines differ in depth, which annealing does not support.
  static std::vector<Chain> chains_from(const std::vector<PlanCandidate>& starts) {
    std::vector<Chain> result;
    for (const PlanCandidate& start : starts)
      if (are_equally_deep(start.plan)) result.push_back({start, start});
    return result;
  }

  static bool is_start_of(const PlanCandidate& plan, const std::vector<Chain>& all) {
    return std::any_of(all.begin(), all.end(), [&](const Chain& it) {
      return it.start.job == plan.job && it.start.plan == plan.plan;
    });
  }

  /// Adds chains that start from other screened plans of the shapes of `all`: their best screened plan need
  /// not be the best one to anneal.
  void add_other_starts(std::vector<Chain>& all) {
    std::vector<Chain> more;
    for (const Chain& chain : all) {
      if (more.size() == other_starts) break;
      const auto next = std::find_if(screened_.begin(), screened_.end(), [&](const PlanCandidate& it) {
        return it.job == chain.start.job && it.shape() == chain.start.shape() && are_equally_deep(it.plan);
      });
      if (next == screened_.end()) continue;
      more.push_back({*next, *next});
      screened_.erase(next);
    }
    all.insert(all.end(), more.begin(), more.end());
  }

  static void keep_best(std::vector<Chain>& all, std::size_t most) {
    std::stable_sort(all.begin(), all.end(),
                     [](const Chain& a, const Chain& b) { return is_better(a.reached, b.reached); });
    if (all.size() > most) all.erase(all.begin() + static_cast<long>(most), all.end());
  }

  /// Moves of one of `chains_now` chains, which together get `share` of the moves (or of the effort, if
  /// that is less) of a search without limits.
  static long long moves_of(const PlanCandidate& start, double share, std::size_t chains_now) {
    const auto parts = static_cast<double>(chains_now);
    const double wanted = default_effort(start.job->problem.topology->size()).moves;
    const auto moves = affordable_moves(start, first_share * wanted / parts, 2 * parts);
    return static_cast<long long>(std::ceil(static_cast<double>(moves) * share / first_share));
  }

  /// Evolves the best plans. Then tries other decisions, anneals the best plan of each, and repeats both as
  /// long as that helps.
  void evolve_and_decide(std::uint64_t round) {
    for (int time = 0; time < decision_rounds && !state_.is_over(); ++time) {
      const std::uint64_t number = round * decision_rounds + static_cast<std::uint64_t>(time);
      evolve_in_epochs(state_, number);
      if (state_.is_over() || !state_.decisions.has_undecided()) return;
      const PlanCandidate before = state_.pool.best();
      decision_search_.try_alternatives();
      if (state_.is_over()) return;
      std::vector<Chain> of_jobs = chains_from(state_.pool.best_per_job(chains_of_decisions));
      anneal(of_jobs, first_share / default_rounds, later_initial_temperature, first_late_stream + number);
      if (!is_better(state_.pool.best(), before)) return;
      state_.record_convergence();
    }
  }

  /// Cooling schedules of `all`. If the budget is not sufficient for all of them, each is cut short.
  std::vector<PlanCoolingSchedule> coolings(const std::vector<Chain>& all, double share, double from) const {
    std::vector<PlanCoolingSchedule> result;
    double needed = 0;
    for (const auto& [start, reached] : all) {
      PlanCoolingSchedule cooling{moves_of(start, share, all.size()), from, final_temperature};
      cooling.keeps_pareto_front = state_.options.keeps_pareto_front;
      needed += static_cast<double>(cooling.moves + 1 + max_fitting_evaluations(*start.job));
      result.push_back(cooling);
    }
    const auto left = static_cast<double>(state_.budget.left());
    for (PlanCoolingSchedule& it : result)
      if (needed > left)
        it.evaluations = static_cast<long long>(static_cast<double>(it.moves + 1) * left / needed);
    return result;
  }

  /// Anneals, then fits layers, micro-batches and the order of a ring to the resulting devices, if that is
  /// better.
  AnnealedPlan anneal_and_fit(const PlanCandidate& start, const PlanCoolingSchedule& cooling, Rng& rng,
                              const StopFunction& stop) const {
    if (cooling.evaluations < 1) return {start, 0, false, {}};
    const PlanScore score = state_.score.with_own_count().with_stop([this] { return state_.must_stop(); });
    AnnealedPlan result = anneal_plan(start, score, cooling, rng, stop);
    if (result.evaluations == 1 || !result.is_complete || cooling.evaluations <= cooling.moves) return result;
    const auto keep_if_better = [&](PlanCandidate changed) {
      if (is_better(changed, result.best)) result.best = std::move(changed);
    };
    try {
      keep_if_better(fit_plan(result.best.job, result.best.plan, score));
      keep_if_better(refine_layer_cuts(result.best, score));
      keep_if_better(order_pipelines(result.best, score));
    } catch (const WorkStopped&) {
    }
    result.evaluations += score.evaluated();
    return result;
  }

  /// Returns whether a move was evaluated.
  bool anneal(std::vector<Chain>& all, double share, double from, std::uint64_t stream) {
    const std::vector<PlanCoolingSchedule> cooling = coolings(all, share, from);
    std::atomic<long long> asked{0};
    const int ranks =
        state_.options.common.ranks ? state_.options.common.ranks->size() : 1;  // assumed to be equally fast
    const auto stop = [&] {
      state_.report(asked += ranks);
      return state_.must_stop();
    };
    const auto task = [&](int i) {
      Rng rng = Rng::for_task(state_.options.common.seed, stream * 1000 + static_cast<std::uint64_t>(i));
      const PlanCandidate& start = all[at(i)].start;
      try {
        return anneal_and_fit(start, cooling[at(i)], rng, stop);
      } catch (const Error& error) {
        return AnnealedPlan{start, 1, true, {}, error.what()};
      }
    };
    DecidedJobs jobs;
    for (const Chain& it : all) jobs.push_back(it.start.job);
    const auto found = distributed_map(static_cast<int>(all.size()), state_.options.common, task, &jobs);
    bool has_moved = false;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const AnnealedPlan& it = found[i];
      if (is_better(it.best, all[i].reached)) all[i].reached = it.best;
      has_moved = has_moved || it.evaluations > 1;
      state_.budget.count(it.evaluations);
      if (!it.is_complete) state_.budget.end();
      if (!it.discarded.empty()) state_.discarded.push_back(it.discarded);
      state_.keep(it.best);
      for (const PlanCandidate& candidate : it.front) state_.pareto_front.offer(candidate);
    }
    state_.record_convergence();
    return has_moved;
  }

  SearchState& state_;
  DecisionSearch& decision_search_;
  std::vector<Chain> starts_;
  std::vector<PlanCandidate> screened_;  // that no chain started from
};

}  // namespace

void anneal_in_rounds(SearchState& state, DecisionSearch& decision_search) {
  AnnealingRounds(state, decision_search).run();
}

}  // namespace dtfm::search
