#include "planner/search/iteration_time/plan_anneal.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/target.hpp"
#include "planner/cost/iteration_time/greedy_order.hpp"
#include "planner/cost/iteration_time/warm_up.hpp"
#include "planner/search/iteration_time/editable_plan.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "planner/search/iteration_time/plan_moves.hpp"
#include "planner/search/iteration_time/random_change.hpp"

namespace dtfm::search {
namespace {

// Share of the mean end in the energy, which guides moves that do not affect the slowest pipeline. Chosen by
// hand, not tuned.
constexpr double guidance = 0.05;
constexpr int max_tries = 4;  // for a move that changes something
constexpr std::size_t max_pareto_front_size_per_run = 16;
// Limit on the expected steps of all estimates of a search's annealing. Chosen for the times in
// docs/validation.md.
constexpr double max_steps = 7e8;

class PlanAnnealer {
 public:
  PlanAnnealer(const PlanCandidate& start, const PlanScore& score, Rng& rng)
      : best_(start),
        score_(score),
        rng_(rng),
        edited_(start, score),
        estimator_(start.job->model),
        pareto_front_(max_pareto_front_size_per_run) {
    if (score.migration()) migration_.emplace(*score.migration(), start.job->model.chunks);
    now_ = *energy_up_to(infinity);
  }

  AnnealedPlan run(const PlanCoolingSchedule& cooling, const std::function<bool()>& stop) {
    keeps_pareto_front_ = cooling.keeps_pareto_front;
    const double ratio = cooling.final_temperature / cooling.initial_temperature;
    const double scale = best_.score > 0 ? best_.score : now_;
    long long move = 0;
    try {
      for (; move < cooling.moves && evaluations_ < cooling.evaluations; ++move) {
        if (move % moves_between_stop_checks == 0 && stop && stop()) break;
        const double share = static_cast<double>(move) / static_cast<double>(cooling.moves);
        try_move(scale * cooling.initial_temperature * std::pow(ratio, share));
      }
    } catch (const WorkStopped&) {  // after a part of a move, which is not evaluated
    }
    return {best_, evaluations_, move == cooling.moves, pareto_front_.plans()};
  }

 private:
  const Plan& plan() const { return edited_.plan(); }

  cost::MigrationEstimate migration() {
    return migration_ ? migration_->estimate(plan()) : cost::MigrationEstimate();
  }

  /// The energy, or nothing if it exceeds the limit; then the estimate is usually pruned.
  std::optional<double> energy_up_to(double max_energy) {
    score_.throw_if_stopped();
    ++evaluations_;
    const cost::MigrationEstimate of_migration = migration();
    churn_ = score_.churn_of(plan());
    const auto energy = [&](const auto& it) {
      const double seconds = (1 - guidance) * it.iteration_s + guidance * it.mean_end_s;
      return energy_of(score_.of(seconds, edited_.weight(), it.egress_usd, of_migration, churn_),
                       it.deficit_bytes);
    };
    estimate_ = estimator_.estimate_or_prune(
        plan(), [&](const cost::EstimateBounds& bounds) { return energy(bounds) > max_energy; });
    return estimate_ ? std::optional(energy(*estimate_)) : std::nullopt;
  }

  void keep_if_best() {
    const double deficit_bytes = estimate_->deficit_bytes;
    PlanCandidate now{best_.job,     {},          estimate_->iteration_s,
                      deficit_bytes, migration(), estimate_->egress_usd};
    now.score = score_.of(now.iteration_s, edited_.weight(), now.egress_usd, now.migration, churn_);
    if (keeps_pareto_front_ && deficit_bytes <= 0 &&
        pareto_front_.would_accept(plan_objectives(now, plan()))) {
      now.plan = plan();
      now.plan.tensor = tensor_degrees(now.plan).back();
      pareto_front_.offer(now);
    }
    if (!is_better(now, best_)) return;
    now.plan = plan();
    now.plan.tensor = tensor_degrees(now.plan).back();
    best_ = std::move(now);
  }

  /// Makes flushes as rare as memory allows, if some are needed and the job does not fix their interval.
  void refit_flush() {
    const cost::IterationModel& model = best_.job->model;
    if (model.flush > 0 || !traits(model.schedule).forwards_first) return;
    if (!may_flush(best_.job->problem.job)) return;
    if (!plan().execution.flush && estimator_.deficit_bytes(plan()) <= 0) return;
    int longest = 0;
    for (const Pipeline& pipeline : plan().pipelines) longest = std::max(longest, pipeline.micro_batches);
    const int fitting = fit_flush_interval(*best_.job, plan());
    if (fitting >= 1) edited_.set_flush(fitting < longest ? std::optional(fitting) : std::nullopt);
  }

  void try_move(double temperature) {
    edited_.keep();
    for (int i = 0; i < max_tries && !edited_.is_edited(); ++i) make_random_move(edited_, rng_);
    if (!edited_.is_edited()) return;
    refit_flush();
    if (const std::optional<double> new_energy = energy_up_to(acceptance_limit(now_, temperature, rng_))) {
      now_ = *new_energy;
      keep_if_best();
    } else {
      edited_.undo();
    }
  }

  PlanCandidate best_;
  const PlanScore& score_;
  Rng& rng_;
  EditablePlan edited_;
  cost::IterationEstimator estimator_;
  const cost::IterationEstimate* estimate_ = nullptr;  // of the last evaluation; null if it was pruned
  std::optional<cost::MigrationTimer> migration_;      // set in a warm start
  ChurnSlowdown churn_;                                // of the last evaluation
  double now_ = 0;
  long long evaluations_ = 0;
  ParetoFront pareto_front_;
  bool keeps_pareto_front_ = false;
};

/// Steps of a whole estimate after a move of `candidate`, some 10 ns each. The factors were fitted by hand to
/// profiles of plans of 64 to 1,024 devices. The estimate compares the whole plan with the previous one, and
/// evaluates again two pipelines (about half of them if links are shared) and two synchronizations.
double steps_of_move(const PlanCandidate& candidate) {
  const cost::IterationModel& model = candidate.job->model;
  const auto [stages, replicas] = candidate.shape();
  const bool shared = model.network.shared_count() > 0;
  const ScheduleTraits& schedule = traits(model.schedule);
  const int batches = candidate.plan.pipelines.front().micro_batches;
  double of_pipeline = stages;
  const bool is_ahead = model.messaging == Messaging::ahead;
  int ahead = stages;  // forwards before the first backward, and one more
  const bool is_planned = schedule.has_planned_warm_up || schedule.has_planned_passes;
  if (is_planned) {
    cost::IterationEstimator estimator(model);
    estimator.estimate(candidate.plan);
    const cost::PipelineWork& work = estimator.work(0);
    ahead = 1 + (schedule.has_planned_passes ? cost::zero_bubble_limits(work, cost::usual_scale).warm_ups
                                             : cost::choose_warm_ups(work))
                    .front();
  }
  if (((schedule.alternates && !schedule.is_blocking) || is_planned) && is_ahead && !shared)
    of_pipeline = 2.0 * stages * std::min(batches, 3 * ahead + 4);
  else if (!schedule.forwards_first || !is_ahead)
    of_pipeline =
        8.0 * (schedule.splits_backward ? 3 : 2) * stages * model.chunks * std::min(batches, 6 * ahead);
  const auto classes =
      static_cast<double>(std::min({at(replicas), model.network.kinds(), cost::max_sync_classes}));
  return 1500 + 4.0 * stages * replicas + (shared ? std::max(2.0, replicas / 2.0) : 2) * of_pipeline +
         3 * model.chunks * classes * classes;
}

}  // namespace

long long affordable_moves(const PlanCandidate& start, double moves, double parts) {
  constexpr double least = 500;
  return static_cast<long long>(std::max(least, std::min(moves, affordable_evaluations(start, parts))));
}

double affordable_evaluations(const PlanCandidate& plan, double parts) {
  return max_steps / parts / steps_of_move(plan);
}

AnnealedPlan anneal_plan(const PlanCandidate& start, const PlanScore& score,
                         const PlanCoolingSchedule& cooling, Rng& rng, const std::function<bool()>& stop) {
  try {
    return PlanAnnealer(start, score, rng).run(cooling, stop);
  } catch (const WorkStopped&) {  // before the first move
    return {start, 0, false, {}};
  }
}

}  // namespace dtfm::search
