#include "planner/search/pareto_search.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/parallel.hpp"
#include "planner/search/decisions.hpp"
#include "planner/search/plan_anneal.hpp"

namespace dtfm {
namespace {

using Clock = std::chrono::steady_clock;

// Set by hand and not tuned.
constexpr double device_ratio = 1.25;  // of largest numbers of devices
constexpr std::size_t most_jobs = 4;   // decisions of the front under which shapes are tried
constexpr std::size_t most_annealed = 24;
constexpr std::size_t most_simulated = 24;  // beside the finalists
constexpr int rounds = 2;
constexpr double hottest[rounds] = {0.02, 0.005}, coldest = 0.0002;

bool is_any_priced(const Topology& topology) {
  for (int device = 0; device < topology.size(); ++device)
    if (price_of(topology, device)) return true;
  return false;
}

std::vector<PlanCandidate> thinned(const PlanFront& front, std::size_t most) {
  PlanFront few(most);
  for (const PlanCandidate& it : front.plans()) few.offer(it);
  return few.plans();
}

class FrontSearch {
 public:
  FrontSearch(const Problem& problem, const IterationSearchOptions& options)
      : problem_(problem), options_(options) {
    if (!options_.common.begin) options_.common.begin = Clock::now();
    objectives_ = {options.objective};
    const auto add = [&](Objective objective) {
      if (std::find(objectives_.begin(), objectives_.end(), objective) == objectives_.end())
        objectives_.push_back(objective);
    };
    add(Objective::iteration_time);
    if (is_any_priced(problem.topology)) add(Objective::cost_per_token);
    add(Objective::device_efficiency);
    for (const Objective objective : objectives_)
      if (objective != Objective::device_efficiency) scores_.emplace_back(objective, problem.topology);
  }

  ParetoSearch run() {
    for (std::size_t i = 0; i < objectives_.size() && (i == 0 || !must_stop()); ++i) search(i);
    if (!front_.plans().empty()) {
      sweep();
      for (int round = 0; round < rounds && !must_stop(); ++round) anneal(round);
    }
    for (const PlanCandidate& it : thinned(front_, most_simulated)) add_candidate(it);
    note_stop();
    return std::move(found_);
  }

 private:
  double elapsed_s() const {
    return std::chrono::duration<double>(Clock::now() - *options_.common.begin).count();
  }
  bool is_interrupted() const { return options_.common.interrupted && *options_.common.interrupted; }
  bool must_stop() const {
    return is_interrupted() || (options_.common.time_limit && elapsed_s() >= *options_.common.time_limit);
  }

  void search(std::size_t number) {
    IterationSearchOptions options = options_;
    options.objective = objectives_[number];
    options.keeps_front = true;
    if (auto& limit = options.common.time_limit)
      *limit *= static_cast<double>(number + 1) / static_cast<double>(objectives_.size() + 1);
    if (number == 0) return take(search_iteration(problem_, options), true);
    try {
      take(search_iteration(problem_, options), false);
    } catch (const Error& error) {  // devices without a price leave too few, say
      found_.notes.push_back(
          fmt::format("nothing was found by {}: {}", name_of(options.objective), error.what()));
    }
  }

  void take(IterationSearchResult result, bool is_first) {
    found_.evaluations += result.evaluations;
    if (result.stopped == Stopped::time_limit) found_.stopped = Stopped::time_limit;
    for (const PlanCandidate& it : result.front) front_.offer(it);
    if (is_first) {
      found_.candidates = result.finalists;
      found_.result = std::move(result);
    } else {
      for (const PlanCandidate& it : result.finalists)
        if (it.lacking <= 0) add_candidate(it);
    }
  }

  void add_candidate(const PlanCandidate& candidate) {
    const bool is_known =
        std::any_of(found_.candidates.begin(), found_.candidates.end(), [&](const PlanCandidate& it) {
          return it.flush == candidate.flush && it.plan == candidate.plan &&
                 decisions_key(it.job->problem.job) == decisions_key(candidate.job->problem.job);
        });
    if (!is_known) found_.candidates.push_back(candidate);
  }

  /// Of different decisions or devices.
  std::vector<std::shared_ptr<const DecidedJob>> jobs_of_front() const {
    std::vector<std::shared_ptr<const DecidedJob>> jobs;
    for (const PlanCandidate& it : front_.plans())
      if (jobs.size() < most_jobs && std::none_of(jobs.begin(), jobs.end(), [&](const auto& other) {
            return decisions_key(other->problem.job) == decisions_key(it.job->problem.job) &&
                   other->units == it.job->units;
          }))
        jobs.push_back(it.job);
    return jobs;
  }

  std::vector<Shape> shapes_of(const DecidedJob& job) const {
    std::set<Shape> shapes;
    const int units = static_cast<int>(job.units.size());
    for (int most = 1; most <= units;
         most = std::max(most + 1, static_cast<int>(static_cast<double>(most) * device_ratio)))
      for (int stages = 1; stages <= std::min(most, job.model.stages.layers()); ++stages)
        if (const Shape shape{stages, most / stages}; is_possible(job, shape, options_.limits))
          shapes.insert(shape);
    return {shapes.begin(), shapes.end()};
  }

  void sweep() {
    std::vector<std::pair<std::shared_ptr<const DecidedJob>, Shape>> tries;
    for (const auto& job : jobs_of_front())
      for (const Shape& shape : shapes_of(*job)) tries.emplace_back(job, shape);
    const int count = static_cast<int>(tries.size() * scores_.size());
    const auto found = parallel_map(count, options_.common.threads, [&](int i) {
      const auto& [job, shape] = tries[at(i) / scores_.size()];
      if (must_stop()) return std::vector<PlanCandidate>();
      return plan_starts(job, shape, scores_[at(i) % scores_.size()], false, 1);
    });
    for (const auto& of_shape : found) offer(of_shape, static_cast<long long>(of_shape.size()));
  }

  void offer(const std::vector<PlanCandidate>& plans, long long evaluations) {
    found_.evaluations += evaluations;
    for (const PlanCandidate& it : plans) front_.offer(it);
    if (options_.common.on_progress)
      options_.common.on_progress(
          {found_.evaluations, found_.evaluations, found_.result.finalists.front().iteration_s, 0});
  }

  /// Of the moves of one search, its part of this one; a time limit only ends it.
  PlanCooling cooling_of(const PlanCandidate& start, int round, std::size_t count) const {
    const auto parts = static_cast<double>(count);
    PlanCooling cooling{0, hottest[round], coldest, {}, true};
    const double even =
        static_cast<double>(options_.common.evaluations.value_or(default_moves)) / (rounds * parts);
    cooling.moves = options_.common.evaluations ? static_cast<long long>(even)
                                                : affordable_moves(start, even, rounds * parts);
    return cooling;
  }

  void anneal(int round) {
    const std::vector<PlanCandidate> starts = thinned(front_, most_annealed);
    const std::size_t count = starts.size() * scores_.size();
    const auto found = parallel_map(static_cast<int>(count), options_.common.threads, [&](int i) {
      PlanCandidate start = starts[at(i) / scores_.size()];
      const PlanScore& score = scores_[at(i) % scores_.size()];
      start.score = score.of(start.iteration_s, score.total_weight(start.plan), start.egress_usd);
      AnnealedPlan annealed{start, 0, {}};
      // A device without a price has no place in a plan by price.
      if (must_stop() || !std::isfinite(start.score)) return annealed;
      constexpr std::uint64_t first_stream = 1'000'000;  // beyond those of search_iteration
      Rng rng = Rng::for_task(options_.common.seed, first_stream * static_cast<std::uint64_t>(round + 1) +
                                                        static_cast<std::uint64_t>(i));
      return annealed_plan(start, score, cooling_of(start, round, count), rng, [&] { return must_stop(); });
    });
    for (AnnealedPlan it : found) {
      it.front.push_back(std::move(it.best));
      offer(it.front, it.moves);
    }
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
  std::vector<PlanScore> scores_;  // by which plans are improved for a number of devices
  PlanFront front_{most_in_front};
  ParetoSearch found_;
};

}  // namespace

ParetoSearch search_pareto(const Problem& problem, const IterationSearchOptions& options) {
  return FrontSearch(problem, options).run();
}

}  // namespace dtfm
