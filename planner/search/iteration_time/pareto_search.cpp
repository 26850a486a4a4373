#include "planner/search/iteration_time/pareto_search.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/evaluated_work.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "planner/search/iteration_time/plan_anneal.hpp"
#include "planner/search/iteration_time/plan_codec.hpp"
#include "planner/search/iteration_time/search_effort.hpp"

namespace dtfm::search {
namespace {

// Chosen by hand, not tuned.
constexpr double device_ratio = 1.25;  // between successive limits on the number of devices
constexpr std::size_t max_jobs = 4;    // decisions of the front for which shapes are tried
constexpr std::size_t max_annealed = 24;
constexpr std::size_t max_simulated = 24;  // in addition to the finalists
constexpr int rounds = 2;                  // a hot one and a cooler one
constexpr double round_temperatures[rounds] = {0.02, 0.005}, last_temperature = 0.0002;
constexpr int max_round_doublings = 40;       // of a round's moves: beyond any practical limit
constexpr double share_for_simulation = 0.2;  // of a time limit

bool is_any_priced(const Topology& topology) {
  for (int device = 0; device < topology.size(); ++device)
    if (price_of(topology, device)) return true;
  return false;
}

std::vector<PlanCandidate> thinned(const ParetoFront& front, std::size_t most) {
  ParetoFront few(most);
  for (const PlanCandidate& it : front.plans()) few.offer(it);
  return few.plans();
}

class FrontSearch {
 public:
  FrontSearch(const Problem& problem, const IterationSearchOptions& options)
      : problem_(problem), options_(options) {
    if (!options_.common.begin) options_.common.begin = now_of(options_.common.ranks);
    if (auto& limit = options_.common.time_limit) *limit *= 1 - share_for_simulation;
    objectives_ = {options.objective};
    const auto add = [&](Objective objective) {
      if (std::find(objectives_.begin(), objectives_.end(), objective) == objectives_.end())
        objectives_.push_back(objective);
    };
    add(Objective::iteration_time);
    if (is_any_priced(problem.topology)) add(Objective::cost_per_token);
    add(Objective::device_efficiency);
    for (const Objective objective : objectives_)
      if (objective != Objective::device_efficiency)
        scores_.push_back(PlanScore(objective, problem.topology).with_stop([this] { return must_stop(); }));
  }

  ParetoSearch run() {
    for (std::size_t i = 0; i < objectives_.size() && (i == 0 || !must_stop()); ++i) search(i);
    if (!pareto_front_.plans().empty()) {
      sweep();
      for (int round = 0; round < rounds && !must_stop(); ++round) anneal(round);
      add_front();
      if (ends_by_time()) anneal_until_time_limit();
    }
    note_stop();
    return std::move(found_);
  }

 private:
  bool is_interrupted() const { return is_stopped(options_.common); }
  bool must_stop() const { return is_interrupted() || time_share(options_.common) >= 1; }

  /// Whether only a time limit ends the search. All steps of an unlimited search then come first, and the
  /// rest of the time is for the front.
  bool ends_by_time() const { return options_.common.time_limit && !options_.common.evaluations; }

  void anneal_until_time_limit() {
    bool has_moved = true;
    for (int round = rounds; has_moved && !must_stop(); ++round) has_moved = anneal(round);
    add_front();
  }

  void search(std::size_t number) {
    IterationSearchOptions options = options_;
    options.objective = objectives_[number];
    options.keeps_pareto_front = true;
    options.uses_full_budget = !ends_by_time();
    if (auto& limit = options.common.time_limit)
      *limit *= static_cast<double>(number + 1) / static_cast<double>(objectives_.size() + 1);
    if (number == 0) return take(search_iteration(problem_, options), true);
    try {
      take(search_iteration(problem_, options), false);
    } catch (const Error& error) {  // for example, if too few devices have a price
      found_.failures.emplace_back(options.objective, error.what());
    }
  }

  void take(IterationSearchResult result, bool is_first) {
    found_.evaluations += result.evaluations;
    if (found_.stopped != Stopped::time_limit && result.stopped != Stopped::converged)
      found_.stopped = result.stopped;  // a time limit takes precedence
    for (const PlanCandidate& it : result.front) pareto_front_.offer(it);
    if (is_first) {
      found_.candidates = result.finalists;
      found_.result = std::move(result);
    } else {
      for (const PlanCandidate& it : result.finalists)
        if (it.deficit_bytes <= 0) add_candidate(it);
    }
  }

  /// Candidates added before stay, so that no point becomes worse if a crowded front drops it.
  void add_front() {
    for (const PlanCandidate& it : thinned(pareto_front_, max_simulated)) add_candidate(it);
  }

  void add_candidate(const PlanCandidate& found) {
    const PlanCandidate candidate =
        with_planned_orders(found, problem_.job, PlanScore(options_.objective, problem_.topology));
    const bool is_known =
        std::any_of(found_.candidates.begin(), found_.candidates.end(), [&](const PlanCandidate& it) {
          return it.plan == candidate.plan &&
                 decisions_key(it.job->problem.job) == decisions_key(candidate.job->problem.job);
        });
    if (!is_known) found_.candidates.push_back(candidate);
  }

  /// With different decisions or devices.
  std::vector<std::shared_ptr<const DecidedJob>> jobs_of_front() const {
    std::vector<std::shared_ptr<const DecidedJob>> jobs;
    for (const PlanCandidate& it : pareto_front_.plans())
      if (jobs.size() < max_jobs && std::none_of(jobs.begin(), jobs.end(), [&](const auto& other) {
            return decisions_key(other->problem.job) == decisions_key(it.job->problem.job) &&
                   other->tensor_groups == it.job->tensor_groups;
          }))
        jobs.push_back(it.job);
    return jobs;
  }

  std::vector<Shape> shapes_of(const DecidedJob& job) const {
    std::set<Shape> shapes;
    const int tensor_groups = static_cast<int>(job.tensor_groups.size());
    for (int most = 1; most <= tensor_groups;
         most = std::max(most + 1, static_cast<int>(static_cast<double>(most) * device_ratio)))
      for (int stages = 1; stages <= std::min(most, job.model.stages.layers()); ++stages)
        if (const Shape shape{stages, most / stages}; is_possible(job, shape, options_.limits))
          shapes.insert(shape);
    return {shapes.begin(), shapes.end()};
  }

  void sweep() {
    std::vector<std::pair<std::shared_ptr<const DecidedJob>, Shape>> tries;
    const DecidedJobs jobs = jobs_of_front();
    for (const auto& job : jobs)
      for (const Shape& shape : shapes_of(*job)) tries.emplace_back(job, shape);
    const int count = static_cast<int>(tries.size() * scores_.size());
    EvaluationBudget budget(part_of_budget());
    const auto task = [&](int i) {
      const auto& [job, shape] = tries[at(i) / scores_.size()];
      return evaluate_and_count(scores_[at(i) % scores_.size()],
                                [&, &job = job, &shape = shape](const PlanScore& score) {
                                  return initial_plans(job, shape, score, false, 1);
                                });
    };
    Work work = options_.common;
    work.stop = [this] { return must_stop(); };
    take_in_order(count, work, jobs, budget.is_limited(), task, [&](const EvaluatedPlans& found) {
      if (!found.discarded.empty()) found_.result.discarded.push_back(found.discarded);
      if (!budget.take(found.evaluations)) return false;
      offer(found.plans, found.evaluations);
      return true;
    });
  }

  /// Evaluations of the sweep, and of each round of annealing, if they are limited.
  std::optional<long long> part_of_budget() const {
    const auto given = options_.common.evaluations;
    return given ? std::optional(*given / (rounds + 1)) : std::nullopt;
  }

  void offer(const std::vector<PlanCandidate>& plans, long long evaluations) {
    found_.evaluations += evaluations;
    for (const PlanCandidate& it : plans) pareto_front_.offer(it);
    if (options_.common.on_progress)
      options_.common.on_progress(
          {found_.evaluations, found_.evaluations, found_.result.finalists.front().iteration_s, 0});
  }

  /// One run's part of a round's moves: of the limit, or of half of a search's moves; later pairs of rounds
  /// have twice as many each.
  PlanCoolingSchedule cooling_of(const PlanCandidate& start, int round, std::size_t count) const {
    const auto parts = static_cast<double>(count);
    PlanCoolingSchedule cooling{0, round_temperatures[round % rounds], last_temperature};
    cooling.keeps_pareto_front = true;
    if (const auto part = part_of_budget()) {
      cooling.evaluations = *part / static_cast<long long>(count);
      cooling.moves = cooling.evaluations - 1;  // the start itself takes one
      return cooling;
    }
    const auto moves = affordable_moves(
        start, default_effort(start.job->problem.topology->size()).moves / (rounds * parts), rounds * parts);
    cooling.moves = static_cast<long long>(
        std::ldexp(static_cast<double>(moves), std::min(round / rounds, max_round_doublings)));
    return cooling;
  }

  /// Returns whether a move was evaluated.
  bool anneal(int round) {
    const std::vector<PlanCandidate> initial_plans_found = thinned(pareto_front_, max_annealed);
    const std::size_t count = initial_plans_found.size() * scores_.size();
    const auto task = [&](int i) {
      PlanCandidate start = initial_plans_found[at(i) / scores_.size()];
      const PlanScore& score = scores_[at(i) % scores_.size()];
      start.score = score.of(start.iteration_s, score.total_weight(start.plan), start.egress_usd);
      const PlanCoolingSchedule cooling = cooling_of(start, round, count);
      AnnealedPlan annealed{start, 0, true, {}};
      // A plan with a device of unknown price has no score by price.
      if (must_stop() || cooling.evaluations < 1 || !std::isfinite(start.score)) return annealed;
      constexpr std::uint64_t first_stream = 1'000'000;  // beyond those of search_iteration
      Rng rng = Rng::for_task(options_.common.seed, first_stream * static_cast<std::uint64_t>(round + 1) +
                                                        static_cast<std::uint64_t>(i));
      return anneal_plan(start, score, cooling, rng, [&] { return must_stop(); });
    };
    DecidedJobs jobs;
    for (const PlanCandidate& it : initial_plans_found) jobs.push_back(it.job);
    const auto found = distributed_map(static_cast<int>(count), options_.common, task, &jobs);
    bool has_moved = false;
    for (AnnealedPlan it : found) {
      has_moved = has_moved || it.evaluations > 1;
      it.front.push_back(std::move(it.best));
      offer(it.front, it.evaluations);
    }
    return has_moved;
  }

  void note_stop() {
    if (is_interrupted())
      found_.stopped = Stopped::interrupted;
    else if (must_stop())
      found_.stopped = Stopped::time_limit;
  }

  const Problem& problem_;
  IterationSearchOptions options_;
  std::vector<Objective> objectives_;
  std::vector<PlanScore> scores_;  // by which plans with a given number of devices are improved
  ParetoFront pareto_front_{max_pareto_front_size};
  ParetoSearch found_;
};

}  // namespace

ParetoSearch search_pareto(const Problem& problem, const IterationSearchOptions& options) {
  return FrontSearch(problem, options).run();
}

}  // namespace dtfm::search
