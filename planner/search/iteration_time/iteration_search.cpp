#include "planner/search/iteration_time/iteration_search.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/parallel.hpp"
#include "planner/core/virtual_stages.hpp"
#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/plan_anneal.hpp"
#include "planner/search/iteration_time/plan_pool.hpp"
#include "planner/search/iteration_time/priced_work.hpp"
#include "planner/search/iteration_time/too_slow.hpp"

namespace dtfm::search {
namespace {

using DecidedJobPtr = std::shared_ptr<const DecidedJob>;
using Clock = std::chrono::steady_clock;

// Set by hand and not tuned.
constexpr double coarse_ratio = 1.25, fine_ratio = 1.04;  // of neighbouring numbers of replicas
constexpr std::size_t few_shapes = 64;                    // are all looked at from the start
constexpr std::size_t screened = 10;                      // shapes whose neighbourhood is looked at
constexpr std::size_t kept = 96;                          // candidates
constexpr std::size_t deciders = 4;                       // of them, on which alternatives are tried
constexpr int decision_rounds = 6;
constexpr std::size_t first_islands = 16, islands_of_few = 8;  // the latter times more_moves
constexpr std::size_t islands = 8, least_islands = 4, later_islands = 3;
constexpr double first_share = 0.5;      // of a round's moves, for the first annealing of all islands
constexpr int default_rounds = 4;        // of annealing
constexpr int most_doublings = 40;       // of their moves: more than anybody waits for
constexpr double settling_share = 0.05;  // of a time limit, where there is a plan to go on from
constexpr double hottest = 0.02, hottest_later = 0.005, coldest = 0.0002;

class IterationSearch {
 public:
  IterationSearch(const Problem& problem, const IterationSearchOptions& options)
      : options_(options),
        decisions_(problem, PlanScore(options.objective, problem.topology).unpriced()),
        score_(score_of(problem)),
        begin_(options.common.begin.value_or(Clock::now())),
        budget_(options.common.evaluations),
        most_kept_(std::max(kept, at(options.finalists))),
        pool_(most_kept_) {}

  IterationSearchResult run() {
    const DecidedJobPtr first = decisions_.first();
    result_.unusable = decisions_.unusable();
    result_.unpriced = score_.unpriced();
    if (options_.warm) offer_warm(*options_.warm, *first);
    screen(first);
    if (pool_.empty()) throw NoSuchShape(what_there_is(*first));
    leave_out_slow(*first);
    if (decisions_.any_open()) decide();
    anneal();
    finish();
    return std::move(result_);
  }

 private:
  PlanScore score_of(const Problem& problem) const {
    if (!options_.warm) return {options_.objective, problem.topology};
    const auto& [plan, job, horizon_s] = *options_.warm;
    return {options_.objective, problem.topology,
            std::make_shared<const cost::MovingCost>(problem, decisions_.network(), plan, stage_chunks(job)),
            horizon_s};
  }

  /// The first of all candidates, so that others have to be better.
  void offer_warm(const WarmStart& warm, const DecidedJob& first) {
    const DecidedJobPtr job = decisions_.like(first, warm.job, warm.plan);
    if (!job) return;
    const int flush = job->model.flush > 0 ? 0 : warm.job.parallelism.flush.value_or(0);
    const PlanScore score = score_.with_own_count();
    result_.unchanged = unchanged_plan(warm.plan, flush, job, options_.limits, score);
    if (result_.unchanged && stands_on_units(warm.plan, *job)) keep(*result_.unchanged);
    const auto stop = [&] { return must_stop() || score.priced() >= budget_.left(); };
    std::vector<PlanCandidate> repaired = repaired_plans(warm.plan, job, options_.limits, score, stop);
    budget_.count(score.priced());
    for (PlanCandidate& candidate : repaired) keep(std::move(candidate));
    note();
  }

  /// Begins again as if devices that no better plan can use were not there, so that they make none worse.
  /// Only where time is what counts: they may be cheap, and a plan that runs may need them.
  void leave_out_slow(const DecidedJob& job) {
    const bool is_time = options_.objective == Objective::iteration_time;
    if (!is_time || options_.keeps_front || options_.warm || is_over() || !pool_.has_fitting()) return;
    const auto slow = too_slow_devices(job, decisions_.open_job(), pool_.best().iteration_s);
    if (slow.empty()) return;
    with_all_ = pool_.best();
    pool_ = PlanPool(most_kept_);
    decisions_.leave_out(slow);
    screen(decisions_.first());
  }

  bool is_interrupted() const { return options_.common.interrupted && *options_.common.interrupted; }
  bool is_late(double share) const {
    const auto limit = options_.common.time_limit;
    return limit && elapsed_s() >= share * *limit;
  }
  bool must_stop() const { return is_interrupted() || is_late(options_.warm ? 1 - settling_share : 1); }
  bool is_over() const { return must_stop() || budget_.is_spent(); }

  static std::string what_there_is(const DecidedJob& job) {
    return fmt::format("there are {} devices, {} layers and {} micro-batches{}{}",
                       job.units.size() * at(job.model.stages.tensor()), job.model.stages.layers(),
                       micro_batch_count(job.problem.job.training),
                       are_pipelines_alike(job) ? ", of which alike pipelines have equally many" : "",
                       job.model.chunks > 1 ? "; interleaved: multiples of the stages, a layer a chunk" : "");
  }

  void keep(PlanCandidate candidate) {
    if (options_.keeps_front) front_.offer(candidate);
    pool_.keep(std::move(candidate));
  }

  void note() {
    if (!pool_.has_fitting()) return;
    auto& points = result_.convergence;
    const double best = pool_.best().score;
    if (points.empty() || best < points.back().cost) points.push_back({budget_.priced(), best});
    tell(budget_.priced());
  }

  /// The plans that work(0, score), …, work(count − 1, score) find, as far as the budget allows.
  /// Without any plan there would be nothing to write: the first piece is done however late it is, and
  /// where there is time, but not enough, all until one `fits`.
  template <class Work>
  void offer(int count, const Work& work, bool until_one_fits = false) {
    if (budget_.is_spent()) return;
    const auto is_left_out = [&](int i) {
      if (is_interrupted() || !until_one_fits) return must_stop() && (i > 0 || !pool_.empty());
      return must_stop() && pool_.has_fitting();
    };
    const auto piece = [&](int i) {
      if (is_left_out(i)) return PricedPlans();
      return priced_plans(score_, [&](const PlanScore& score) { return work(i, score); });
    };
    const bool is_limited = budget_.is_limited() || options_.common.time_limit;
    take_in_order(count, options_.common.threads, is_limited, piece, [&](const PricedPlans& found) {
      if (!pool_.has_fitting())
        budget_.count(found.prices);
      else if (!budget_.take(found.prices))
        return false;
      for (const PlanCandidate& candidate : found.plans) keep(candidate);
      return true;
    });
  }

  void offer_starts(const DecidedJobPtr& job, const std::vector<Shape>& shapes, bool thorough) {
    constexpr std::size_t most = 3;
    const auto starts = [&](int i, const PlanScore& score) {
      return plan_starts(job, shapes[at(i)], score, thorough, most);
    };
    offer(static_cast<int>(shapes.size()), starts, !thorough);
    note();
  }

  /// A copy of the pointer: what the pool holds moves while it is filled.
  void screen(const DecidedJobPtr job) {
    offer_coarse_starts(job);
    screen_near_best(job);
  }

  /// Those of most devices first: of few evaluations they promise most.
  void offer_coarse_starts(const DecidedJobPtr& job) {
    std::vector<Shape> shapes = possible_shapes(*job, options_.limits, fine_ratio);
    if (shapes.size() > few_shapes) shapes = possible_shapes(*job, options_.limits, coarse_ratio);
    std::stable_sort(shapes.begin(), shapes.end(), [](const Shape& a, const Shape& b) {
      return a.stages * a.replicas > b.stages * b.replicas;
    });
    offer_starts(job, shapes, false);
  }

  void screen_near_best(const DecidedJobPtr& job) {
    const std::vector<Shape> centres = pool_.best_shapes(*job, screened);
    std::vector<Shape> nearby;
    for (const Shape& shape : possible_shapes(*job, options_.limits, fine_ratio))
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
    const PlanCandidate before = pool_.best();
    std::vector<std::pair<PlanCandidate, DecidedJobPtr>> tries;
    for (const PlanCandidate& from : pool_.best_of_shapes(deciders))
      for (const DecidedJobPtr& job : decisions_.alternatives(*from.job)) tries.emplace_back(from, job);
    offer(static_cast<int>(tries.size()), [&](int i, const PlanScore& score) {
      std::vector<PlanCandidate> candidates;
      const auto& [from, job] = tries[at(i)];
      if (auto same = transplanted_plan(job, from, options_.limits, score))
        candidates.push_back(std::move(*same));
      const Shape shape = limited(from.shape(), *job);
      if (!is_possible(*job, shape, options_.limits)) return candidates;
      for (PlanCandidate& start : plan_starts(job, shape, score, false, 1))
        candidates.push_back(std::move(start));
      return candidates;
    });
    return is_better(pool_.best(), before);
  }

  /// A shape of as many devices, as far as there are units.
  static Shape limited(Shape shape, const DecidedJob& job) {
    const int units = static_cast<int>(job.units.size());
    shape.stages = std::max(1, std::min({shape.stages, units, job.model.stages.layers() / job.model.chunks}));
    shape.replicas = std::clamp(shape.replicas, 1, units / shape.stages);
    return shape;
  }

  /// The best shape hangs on the micro-batch: of larger ones fewer pipelines can be filled. So each has a
  /// look at shapes of its own; among few devices also with what else memory hangs on.
  void screen_micro_batches() {
    const DecidedJobPtr best = pool_.best().job;
    const Job& now = best->problem.job;
    const bool are_few = possible_shapes(*best, options_.limits, fine_ratio).size() <= few_shapes;
    if (is_over()) return;
    for (const DecidedJobPtr& job : decisions_.alternatives(*best)) {
      Job alike = job->problem.job;
      alike.training.micro_batch = now.training.micro_batch;
      if (are_few) {
        alike.training.recompute = now.training.recompute;
        alike.parallelism.tensor = now.parallelism.tensor;
      }
      if (decisions_key(alike) == decisions_key(now))
        offer_starts(job, sparse_shapes(*job, options_.limits), false);
    }
  }

  void decide() {
    std::set<DecidedJobPtr> done = {pool_.best().job};
    screen_micro_batches();
    if (!is_over() && done.insert(pool_.best().job).second) screen(pool_.best().job);
    for (int round = 0; round < decision_rounds && !is_over() && try_alternatives(); ++round) {
      const DecidedJobPtr best = pool_.best().job;
      if (done.insert(best).second) screen(best);
      note();
    }
    for (const DecidedJobPtr& job : decisions_.unlike_degrees(*pool_.best().job)) offer_coarse_starts(job);
    const DecidedJobPtr best = pool_.best().job;
    if (best->has_unlike_degrees() && !is_over()) screen_near_best(best);
  }

  struct Island {
    PlanCandidate start, reached;
  };

  /// Rounds until there is nothing to move, or nothing left of what limits the search. All begin with plans
  /// of the screen, for those that were annealed before are hard to leave; of many starts, those from which
  /// the best was reached go on to the next round (successive halving).
  void anneal() {
    if (is_over()) return;
    const bool is_limited = options_.common.evaluations || options_.common.time_limit;
    const bool goes_on = is_limited && options_.goes_on;
    const auto of_few = static_cast<std::size_t>(islands_of_few * more_moves(pool_.best().job->units.size()));
    std::vector<Island> all = islands_from(pool_.best_of_shapes(std::max(first_islands, of_few)));
    for (int round = 0; round < default_rounds || goes_on; ++round) {
      const double share =
          std::ldexp(1.0, std::max(0, std::min(round, most_doublings) - default_rounds + 1)) / default_rounds;
      const std::uint64_t generation = 2 * static_cast<std::uint64_t>(round);
      const bool has_moved = anneal(all, first_share * share, hottest, generation + 1);
      if (!has_moved || is_over()) return;
      std::vector<Island> later = islands_from(pool_.best_unlike(later_islands));
      anneal(later, (1 - first_share) * share, hottest_later, generation + 2);
      if (is_over()) return;
      keep_best(all, std::max(least_islands, all.size() / 2));
      if (round + 1 < default_rounds || !decisions_.any_open() || !try_alternatives()) continue;
      all = islands_from(pool_.best_unlike(islands));
      note();
    }
  }

  static std::vector<Island> islands_from(const std::vector<PlanCandidate>& starts) {
    std::vector<Island> result;
    for (const PlanCandidate& start : starts) result.push_back({start, start});
    return result;
  }

  static void keep_best(std::vector<Island>& all, std::size_t most) {
    std::stable_sort(all.begin(), all.end(),
                     [](const Island& a, const Island& b) { return is_better(a.reached, b.reached); });
    if (all.size() > most) all.erase(all.begin() + static_cast<long>(most), all.end());
  }

  /// Each of so many islands: its part of `share` of the moves, or of the effort, of a search without limits.
  static long long moves_of(const PlanCandidate& start, double share, std::size_t islands_now) {
    const auto parts = static_cast<double>(islands_now);
    const auto moves = affordable_moves(start, first_share * default_moves / parts, 2 * parts);
    return static_cast<long long>(std::ceil(static_cast<double>(moves) * share / first_share));
  }

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }

  /// How each of `all` is annealed; with less left of the budget than all of them need, each is cut short.
  std::vector<PlanCooling> coolings(const std::vector<Island>& all, double share, double from) const {
    std::vector<PlanCooling> result;
    double needed = 0;
    for (const auto& [start, reached] : all) {
      PlanCooling cooling{moves_of(start, share, all.size()), from, coldest};
      cooling.keeps_front = options_.keeps_front;
      needed += static_cast<double>(cooling.moves + 1 + most_fitting_prices(*start.job));
      result.push_back(cooling);
    }
    const auto left = static_cast<double>(budget_.left());
    for (PlanCooling& it : result)
      if (needed > left)
        it.prices = static_cast<long long>(static_cast<double>(it.moves + 1) * left / needed);
    return result;
  }

  /// With layers and micro-batches fitted to the devices it has come to, where that is better.
  AnnealedPlan annealed(const PlanCandidate& start, const PlanCooling& cooling, Rng& rng,
                        const std::function<bool()>& stop) const {
    if (cooling.prices < 1) return {start, 0, false, {}};
    AnnealedPlan result = annealed_plan(start, score_, cooling, rng, stop);
    if (result.prices == 1 || !result.is_complete || cooling.prices <= cooling.moves) return result;
    const PlanScore score = score_.with_own_count();
    const PlanCandidate fitted = fitted_plan(result.best.job, result.best.plan, score);
    PlanCandidate recut = recut_plan(is_better(fitted, result.best) ? fitted : result.best, score);
    result.prices += score.priced();
    if (is_better(recut, result.best)) result.best = std::move(recut);
    return result;
  }

  /// Was a move priced?
  bool anneal(std::vector<Island>& all, double share, double from, std::uint64_t generation) {
    const std::vector<PlanCooling> cooling = coolings(all, share, from);
    std::atomic<long long> asked{0};
    const auto stop = [&] {
      report(asked += 1);
      return must_stop();
    };
    const int count = static_cast<int>(all.size());
    const auto found = parallel_map(count, options_.common.threads, [&](int i) {
      Rng rng = Rng::for_task(options_.common.seed, generation * 1000 + static_cast<std::uint64_t>(i));
      return annealed(all[at(i)].start, cooling[at(i)], rng, stop);
    });
    bool has_moved = false;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const AnnealedPlan& it = found[i];
      if (is_better(it.best, all[i].reached)) all[i].reached = it.best;
      has_moved = has_moved || it.prices > 1;
      budget_.count(it.prices);
      if (!it.is_complete) budget_.end();
      keep(it.best);
      for (const PlanCandidate& candidate : it.front) front_.offer(candidate);
    }
    note();
    return has_moved;
  }

  /// From any thread of an annealing, of which all have asked so often whether to stop.
  void report(long long asked) {
    const std::unique_lock lock(progress_mutex_, std::try_to_lock);
    if (lock.owns_lock()) tell(budget_.priced() + asked * moves_between_asking);
  }

  /// Of a search without limits.
  long long own_moves() const {
    return static_cast<long long>(default_moves * more_moves(pool_.best().job->units.size()));
  }

  void tell(long long evaluations) const {
    if (!options_.common.on_progress) return;
    const bool is_open_ended = options_.common.time_limit && options_.goes_on && !budget_.is_limited();
    const long long most = is_open_ended ? 0 : options_.common.evaluations.value_or(own_moves());
    const long long budget = most > 0 ? std::max(most, evaluations) : 0;
    options_.common.on_progress({evaluations, budget, pool_.best().iteration_s, 0});
  }

  void settle_finalists() {
    const int count = static_cast<int>(result_.finalists.size());
    const long long most = budget_.left() / count;
    const auto settled = parallel_map(count, options_.common.threads, [&](int i) {
      const PlanScore score = score_.with_own_count();
      const auto stop = [&] { return is_interrupted() || is_late(1) || score.priced() >= most; };
      PlanCandidate plan = settled_plan(result_.finalists[at(i)], score, stop);
      return PricedPlans{{std::move(plan)}, score.priced()};
    });
    result_.finalists.clear();
    for (const PricedPlans& it : settled) {
      result_.finalists.push_back(it.plans.front());
      result_.evaluations += it.prices;
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
    if (with_all_) pool_.keep(*with_all_);
    result_.evaluations = budget_.priced();
    result_.front = front_.plans();
    result_.finalists = pool_.best_unlike(at(options_.finalists));
    if (options_.warm) settle_finalists();
    if (result_.unchanged) put_among_finalists(*result_.unchanged);
    std::stable_sort(result_.finalists.begin(), result_.finalists.end(), is_better);
    if (result_.finalists.front().lacking > 0)
      result_.finalists.resize(1);
    else
      std::erase_if(result_.finalists, [](const PlanCandidate& it) { return it.lacking > 0; });
    if (is_interrupted())
      result_.stopped = Stopped::interrupted;
    else if (must_stop())
      result_.stopped = Stopped::time_limit;
    else if (budget_.is_spent())
      result_.stopped = Stopped::evaluations;
  }

  const IterationSearchOptions& options_;
  Decisions decisions_;
  PlanScore score_;
  Clock::time_point begin_;
  PriceBudget budget_;
  std::size_t most_kept_;
  PlanPool pool_;
  std::optional<PlanCandidate> with_all_;  // the best before devices were left out that are too slow
  PlanFront front_{most_in_front};
  std::mutex progress_mutex_;
  IterationSearchResult result_;
};

}  // namespace

IterationSearchResult search_iteration(const Problem& problem, const IterationSearchOptions& options) {
  return IterationSearch(problem, options).run();
}

}  // namespace dtfm::search
