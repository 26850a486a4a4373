#include "planner/search/iteration_search.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <limits>
#include <mutex>
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

using DecidedJobPtr = std::shared_ptr<const DecidedJob>;
using Clock = std::chrono::steady_clock;

// Set by hand and not tuned.
constexpr double coarse_ratio = 1.25;  // of neighbouring numbers of replicas
constexpr std::size_t screened = 10;   // shapes whose neighbourhood is looked at
constexpr std::size_t kept = 48;       // candidates
constexpr std::size_t deciders = 4;    // of them, on which alternatives are tried
constexpr int decision_rounds = 6;
constexpr std::size_t islands = 8, later_islands = 3;
constexpr double first_share = 0.5;      // of the moves, for the first annealing of all islands
constexpr double settling_share = 0.05;  // of a time limit, where there is a plan to go on from
constexpr double hottest = 0.02, hottest_later = 0.005, coldest = 0.0002;

class IterationSearch {
 public:
  IterationSearch(const Problem& problem, const IterationSearchOptions& options)
      : options_(options),
        decisions_(problem, PlanScore(options.objective, problem.topology).unpriced()),
        score_(score_of(problem)),
        begin_(options.common.begin.value_or(Clock::now())) {}

  IterationSearchResult run() {
    const DecidedJobPtr first = decisions_.first();
    result_.unusable = decisions_.unusable();
    result_.unpriced = score_.unpriced();
    if (options_.warm) offer_warm(*options_.warm, *first);
    screen(first);
    if (pool_.empty()) throw NoSuchShape(what_there_is(*first));
    if (decisions_.any_open()) decide();
    anneal();
    if (decisions_.any_open() && try_alternatives()) note();
    finish();
    return std::move(result_);
  }

 private:
  PlanScore score_of(const Problem& problem) const {
    if (!options_.warm) return {options_.objective, problem.topology};
    const auto& [plan, job, horizon_s] = *options_.warm;
    return {options_.objective, problem.topology,
            std::make_shared<const MovingCost>(problem, decisions_.network(), plan, stage_chunks(job)),
            horizon_s};
  }

  /// The first of all candidates, so that others have to be better.
  void offer_warm(const WarmStart& warm, const DecidedJob& first) {
    const DecidedJobPtr job = decisions_.like(first, warm.job, warm.plan);
    if (!job) return;
    const int flush = job->model.flush > 0 ? 0 : warm.job.parallelism.flush.value_or(0);
    result_.unchanged = unchanged_plan(warm.plan, flush, job, options_.limits, score_);
    if (result_.unchanged && stands_on_units(warm.plan, *job)) keep(*result_.unchanged);
    RepairedPlans repaired =
        repaired_plans(warm.plan, job, options_.limits, score_, [&] { return must_stop(); });
    result_.evaluations += repaired.evaluations + (result_.unchanged ? 1 : 0);
    for (PlanCandidate& candidate : repaired.plans) keep(std::move(candidate));
    note();
  }

  bool must_stop() const {
    if (options_.common.interrupted && *options_.common.interrupted) return true;
    const auto limit = options_.common.time_limit;
    return limit && elapsed_s() >= *limit;
  }

  static std::string what_there_is(const DecidedJob& job) {
    return fmt::format("there are {} devices, {} layers and {} micro-batches",
                       job.units.size() * at(job.model.stages.tensor()), job.model.stages.layers(),
                       micro_batch_count(job.problem.job.training));
  }

  /// Into the pool, unless it is full of better ones; of a shape and job, the best few.
  void keep(PlanCandidate candidate) {
    constexpr int most_alike = 3;
    int alike = 0;
    if (options_.keeps_front) front_.offer(candidate);
    for (auto it = pool_.begin(); it != pool_.end(); ++it) {
      if (it->job != candidate.job || it->shape() != candidate.shape()) continue;
      if (it->plan == candidate.plan) {
        if (!is_better(candidate, *it)) return;
        pool_.erase(it);
        break;
      }
      if (++alike == most_alike) {
        if (!is_better(candidate, *it)) return;
        pool_.erase(it);
        break;
      }
    }
    const auto place = std::find_if(pool_.begin(), pool_.end(),
                                    [&](const PlanCandidate& it) { return is_better(candidate, it); });
    pool_.insert(place, std::move(candidate));
    if (pool_.size() > std::max(kept, at(options_.finalists))) pool_.pop_back();
  }

  void note() {
    if (pool_.empty() || pool_.front().lacking > 0) return;
    auto& points = result_.convergence;
    const double best = pool_.front().score;
    if (points.empty() || best < points.back().cost) points.push_back({result_.evaluations, best});
    tell(result_.evaluations);
  }

  void offer_starts(const DecidedJobPtr& job, const std::vector<Shape>& shapes, bool thorough) {
    constexpr std::size_t most = 2;
    const auto starts = parallel_map(static_cast<int>(shapes.size()), options_.common.threads, [&](int i) {
      // Without any plan there would be nothing to write.
      if (must_stop() && (i > 0 || !pool_.empty())) return std::vector<PlanCandidate>();
      return plan_starts(job, shapes[at(i)], score_, thorough, most);
    });
    for (const auto& of_shape : starts) {
      result_.evaluations += static_cast<long long>(of_shape.size());
      for (const PlanCandidate& candidate : of_shape) keep(candidate);
    }
    note();
  }

  /// The shapes of the best candidates of `job`, each once.
  std::vector<Shape> best_shapes(const DecidedJobPtr& job, std::size_t most) const {
    std::vector<Shape> shapes;
    for (const PlanCandidate& it : pool_)
      if (it.job == job && shapes.size() < most &&
          std::find(shapes.begin(), shapes.end(), it.shape()) == shapes.end())
        shapes.push_back(it.shape());
    return shapes;
  }

  void screen(const DecidedJobPtr& job) {
    offer_starts(job, possible_shapes(*job, options_.limits, coarse_ratio), false);
    screen_near_best(job);
  }

  void screen_near_best(const DecidedJobPtr& job) {
    const std::vector<Shape> centres = best_shapes(job, screened);
    std::vector<Shape> nearby;
    for (const Shape& shape : possible_shapes(*job, options_.limits, 1.04))
      if (std::any_of(centres.begin(), centres.end(), [&](const Shape& centre) {
            return std::abs(shape.stages - centre.stages) <= 1 &&
                   shape.replicas <= coarse_ratio * centre.replicas &&
                   centre.replicas <= coarse_ratio * shape.replicas;
          }))
        nearby.push_back(shape);
    offer_starts(job, nearby, true);
  }

  /// Of the best plans, with one decision taken otherwise. Is one better than all?
  bool try_alternatives() {
    const PlanCandidate before = pool_.front();
    std::vector<std::pair<PlanCandidate, DecidedJobPtr>> tries;
    for (std::size_t i = 0; i < std::min(deciders, pool_.size()); ++i)
      for (const DecidedJobPtr& job : decisions_.alternatives(*pool_[i].job))
        tries.emplace_back(pool_[i], job);
    const auto found = parallel_map(static_cast<int>(tries.size()), options_.common.threads, [&](int i) {
      std::vector<PlanCandidate> candidates;
      if (must_stop()) return candidates;
      const auto& [from, job] = tries[at(i)];
      if (auto same = transplanted_plan(job, from, options_.limits, score_))
        candidates.push_back(std::move(*same));
      const Shape shape = limited(from.shape(), *job);
      if (!is_possible(*job, shape, options_.limits)) return candidates;
      for (PlanCandidate& start : plan_starts(job, shape, score_, false, 1))
        candidates.push_back(std::move(start));
      return candidates;
    });
    for (const auto& candidates : found) {
      result_.evaluations += static_cast<long long>(candidates.size());
      for (const PlanCandidate& candidate : candidates) keep(candidate);
    }
    return is_better(pool_.front(), before);
  }

  /// A shape of as many devices, as far as there are units.
  static Shape limited(Shape shape, const DecidedJob& job) {
    const int units = static_cast<int>(job.units.size());
    shape.stages = std::max(1, std::min({shape.stages, units, job.model.stages.layers() / job.model.chunks}));
    shape.replicas = std::clamp(shape.replicas, 1, units / shape.stages);
    return shape;
  }

  void decide() {
    std::set<const DecidedJob*> done = {pool_.front().job.get()};
    for (int round = 0; round < decision_rounds && !must_stop() && try_alternatives(); ++round) {
      const DecidedJobPtr best = pool_.front().job;
      if (done.insert(best.get()).second) screen(best);
      note();
    }
    for (const DecidedJobPtr& job : decisions_.unlike_degrees(*pool_.front().job))
      offer_starts(job, possible_shapes(*job, options_.limits, coarse_ratio), false);
    const DecidedJobPtr best = pool_.front().job;
    if (best->has_unlike_degrees() && !must_stop()) screen_near_best(best);
  }

  /// The best of the pool, of every shape and job the best one first.
  std::vector<PlanCandidate> best_unlike(std::size_t most) const {
    std::vector<PlanCandidate> first, others;
    for (const PlanCandidate& it : pool_) {
      const bool seen = std::any_of(first.begin(), first.end(), [&](const PlanCandidate& other) {
        return other.job == it.job && other.shape() == it.shape();
      });
      (seen ? others : first).push_back(it);
    }
    first.insert(first.end(), others.begin(), others.end());
    if (first.size() > most) first.resize(most);
    return first;
  }

  void anneal() {
    const auto given = options_.common.evaluations;
    const double moves =
        static_cast<double>(given ? std::max(0LL, *given - result_.evaluations) : default_moves);
    anneal(best_unlike(islands), first_share * moves, hottest, 1);
    anneal(best_unlike(later_islands), (1 - first_share) * moves, hottest_later, 2);
  }

  /// As many as asked for; else as many as the effort allows.
  long long moves_of(const PlanCandidate& start, double moves, std::size_t islands_now) const {
    const double even = moves / static_cast<double>(islands_now);
    if (options_.common.evaluations) return static_cast<long long>(even);
    if (options_.common.time_limit) return std::numeric_limits<long long>::max();
    return affordable_moves(start, even, 2 * static_cast<double>(islands_now));
  }

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  /// Of a time limit alone, what a generation of annealing gets of the rest: half of it, then all.
  std::optional<double> seconds_for(std::uint64_t generation) const {
    if (!options_.common.time_limit || options_.common.evaluations) return std::nullopt;
    const double share = options_.warm ? 1 - settling_share : 1;
    const double rest = std::max(0.0, *options_.common.time_limit * share - elapsed_s());
    return generation == 1 ? rest * first_share : rest;
  }

  /// How much of so many seconds from now on is over.
  std::function<double()> share_of(double seconds) const {
    return [this, seconds, begin = elapsed_s()] { return (elapsed_s() - begin) / std::max(1e-9, seconds); };
  }

  void anneal(const std::vector<PlanCandidate>& starts, double moves, double from, std::uint64_t generation) {
    const int count = static_cast<int>(starts.size());
    const std::optional<double> seconds = seconds_for(generation);
    std::atomic<long long> asked{0};
    const auto stop = [&] {
      report(asked += 1);
      return must_stop();
    };
    const auto found = parallel_map(count, options_.common.threads, [&](int i) {
      Rng rng = Rng::for_task(options_.common.seed, generation * 1000 + static_cast<std::uint64_t>(i));
      PlanCooling cooling{
          moves_of(starts[at(i)], moves, starts.size()), from, coldest, {}, options_.keeps_front};
      if (seconds) cooling.time_share = share_of(*seconds * std::min(options_.common.threads, count) / count);
      return annealed_plan(starts[at(i)], score_, cooling, rng, stop);
    });
    for (const AnnealedPlan& it : found) {
      result_.evaluations += it.moves;
      keep(it.best);
      for (const PlanCandidate& candidate : it.front) front_.offer(candidate);
    }
    note();
  }

  /// From any thread of an annealing, of which all have asked so often whether to stop.
  void report(long long asked) {
    const std::unique_lock lock(progress_mutex_, std::try_to_lock);
    if (lock.owns_lock()) tell(result_.evaluations + asked * moves_between_asking);
  }

  void tell(long long evaluations) const {
    if (!options_.common.on_progress) return;
    const long long budget = options_.common.evaluations.value_or(default_moves);
    options_.common.on_progress({evaluations, std::max(budget, evaluations), pool_.front().iteration_s, 0});
  }

  void settle_finalists() {
    auto& finalists = result_.finalists;
    const auto settled = parallel_map(
        static_cast<int>(finalists.size()), options_.common.threads,
        [&](int i) { return settled_plan(finalists[at(i)], score_, [&] { return must_stop(); }); });
    for (std::size_t i = 0; i < finalists.size(); ++i) {
      finalists[i] = settled[i].plan;
      result_.evaluations += settled[i].evaluations;
    }
  }

  /// In front, so that of equally good plans it is the first.
  void put_among_finalists(const PlanCandidate& unchanged) {
    auto& finalists = result_.finalists;
    std::erase_if(finalists, [&](const PlanCandidate& it) {
      return it.job == unchanged.job && it.plan == unchanged.plan && it.flush == unchanged.flush;
    });
    finalists.insert(finalists.begin(), unchanged);
    if (static_cast<int>(finalists.size()) > std::max(2, options_.finalists)) finalists.pop_back();
  }

  void finish() {
    result_.front = front_.plans();
    result_.finalists = best_unlike(at(options_.finalists));
    if (options_.warm) settle_finalists();
    if (result_.unchanged) put_among_finalists(*result_.unchanged);
    std::stable_sort(result_.finalists.begin(), result_.finalists.end(), is_better);
    if (result_.finalists.front().lacking > 0)
      result_.finalists.resize(1);
    else
      std::erase_if(result_.finalists, [](const PlanCandidate& it) { return it.lacking > 0; });
    if (options_.common.interrupted && *options_.common.interrupted)
      result_.stopped = Stopped::interrupted;
    else if (must_stop())
      result_.stopped = Stopped::time_limit;
  }

  const IterationSearchOptions& options_;
  Decisions decisions_;
  PlanScore score_;
  Clock::time_point begin_;
  std::vector<PlanCandidate> pool_;  // best first
  PlanFront front_{most_in_front};
  std::mutex progress_mutex_;
  IterationSearchResult result_;
};

}  // namespace

IterationSearchResult search_iteration(const Problem& problem, const IterationSearchOptions& options) {
  return IterationSearch(problem, options).run();
}

}  // namespace dtfm
