#include "planner/search/iteration_time/iteration_search.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <mutex>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/ranks.hpp"
#include "planner/core/virtual_stages.hpp"
#include "planner/search/iteration_time/decisions.hpp"
#include "planner/search/iteration_time/evaluated_work.hpp"
#include "planner/search/iteration_time/plan_anneal.hpp"
#include "planner/search/iteration_time/plan_codec.hpp"
#include "planner/search/iteration_time/plan_evolution.hpp"
#include "planner/search/iteration_time/plan_pool.hpp"
#include "planner/search/iteration_time/ring_order.hpp"
#include "planner/search/iteration_time/too_slow_devices.hpp"

namespace dtfm::search {
namespace {

using DecidedJobPtr = std::shared_ptr<const DecidedJob>;

// Chosen by hand, not tuned.
constexpr double coarse_ratio = 1.25, fine_ratio = 1.04;  // between successive numbers of replicas
constexpr std::size_t max_shapes_to_enumerate = 64;  // if there are no more, all are evaluated from the start
constexpr std::size_t screened_shapes = 10;          // shapes whose neighbourhood is evaluated
constexpr std::size_t max_kept = 96;                 // plans in the pool
constexpr std::size_t deciders =
    4;  // plans of different shapes, and of jobs, for which alternatives are tried
constexpr int decision_rounds = 6;
constexpr std::size_t jobs_per_schedule = 8;  // decided jobs with which other schedules are tried
// islands_of_few is multiplied by move_multiplier.
constexpr std::size_t first_islands = 16, islands_of_few = 8;
constexpr std::size_t islands = 8, min_islands = 4, later_islands = 3;
constexpr double first_share = 0.5;  // of a round's moves, for the first annealing of all islands
constexpr int default_rounds = 4;    // of annealing
constexpr int max_idle_rounds = 2;   // successive rounds without a better plan; ends the default rounds
constexpr int max_doublings = 40;    // of a round's moves: beyond any practical limit
constexpr std::uint64_t first_late_generation = 1'000'000;  // of annealing after evolution: beyond any round
// Of a time limit, for minimizing migration and for simulating finalists.
constexpr double migration_time_share = 0.05, simulation_time_share = 0.1;
// Chosen on `benchmark_tiny_problems medium 0 39`. Children are multiplied by the square of move_multiplier.
constexpr int evolution_epochs = 6, evolution_islands = 4;
constexpr double children_per_island = 750, evolution_effort = 4;  // the effort as a multiple of annealing's
constexpr int max_idle_epochs = 2;  // without a better plan; ends the evolution
constexpr double initial_temperature = 0.02, later_initial_temperature = 0.005, final_temperature = 0.0002;

class IterationSearch {
 public:
  IterationSearch(const Problem& problem, const IterationSearchOptions& options)
      : options_(options),
        decisions_(problem, PlanScore(options.objective, problem.topology).unpriced()),
        score_(score_of(problem)),
        device_count_(problem.topology->size()),
        begin_(options.common.begin.value_or(now_of(options.common.ranks))),
        budget_(options.common.evaluations),
        max_kept_(std::max(max_kept, at(options.finalists))),
        pool_(max_kept_) {}

  IterationSearchResult run() {
    const DecidedJobPtr first = decisions_.first();
    result_.unusable = decisions_.unusable();
    result_.unpriced = score_.unpriced();
    if (options_.warm) offer_warm_start(*options_.warm, *first);
    if (decisions_.has_undecided()) decide_early(first);
    const DecidedJobPtr early = pool_.empty() ? first : pool_.best().job;
    screen_shapes(early);
    if (early != first && !is_over()) screen_shapes(first);
    if (pool_.empty()) throw NoSuchShape(describe_available(*first));
    exclude_slow_devices(*first);
    if (decisions_.has_undecided()) decide();
    anneal();
    finish();
    return std::move(result_);
  }

 private:
  PlanScore score_of(const Problem& problem) const {
    if (!options_.warm) return {options_.objective, problem.topology};
    const auto& [plan, job, horizon_s] = *options_.warm;
    return {
        options_.objective, problem.topology,
        std::make_shared<const cost::MigrationCost>(problem, decisions_.network(), plan, stage_chunks(job)),
        horizon_s};
  }

  /// Offers the running plan first, so that others have to be better.
  void offer_warm_start(const WarmStart& warm, const DecidedJob& first) {
    const DecidedJobPtr job = decisions_.decide_like(first, warm.job, warm.plan);
    if (!job) return;
    const PlanScore score = score_.with_own_count();
    result_.unchanged = unchanged_plan(warm.plan, job, options_.limits, score);
    if (result_.unchanged && uses_tensor_groups(warm.plan, *job)) keep(*result_.unchanged);
    const auto stop = [&] { return must_stop() || score.evaluated() >= budget_.left(); };
    std::vector<PlanCandidate> repaired = repaired_plans(warm.plan, job, options_.limits, score, stop);
    budget_.count(score.evaluated());
    for (PlanCandidate& candidate : repaired) keep(std::move(candidate));
    record_convergence();
  }

  /// Restarts the search without devices that no better plan can use, so that they do not affect it. Only for
  /// iteration time, because slow devices may be cheap, and not in a warm start, because the running plan may
  /// need them.
  void exclude_slow_devices(const DecidedJob& job) {
    const bool is_time = options_.objective == Objective::iteration_time;
    if (!is_time || options_.keeps_pareto_front || options_.warm || is_over() || !pool_.has_fitting()) return;
    const auto slow = too_slow_devices(job, decisions_.undecided_job(), pool_.best().iteration_s);
    if (slow.empty()) return;
    best_before_exclusion_ = pool_.best();
    pool_ = PlanPool(max_kept_);
    decisions_.exclude(slow);
    screen_shapes(decisions_.first());
  }

  bool is_interrupted() const { return is_stopped(options_.common); }
  bool is_late(double share) const {
    const auto limit = options_.common.time_limit;
    return limit && elapsed_s() >= share * *limit;
  }
  bool must_stop() const {
    const double search_share = 1 - simulation_time_share - (options_.warm ? migration_time_share : 0);
    return is_interrupted() || is_late(search_share);
  }
  /// Whether the time limit is over for so long that the search gives up finding a plan that fits in memory.
  bool is_overdue() const {
    // A quarter of a second screens many shapes for up to 512 devices. An estimate is quadratic in them.
    constexpr double extension_s = 0.25, devices = 512;
    const double size = std::max(1.0, device_count_ / devices);
    const auto limit = options_.common.time_limit;
    return limit && elapsed_s() >= *limit + extension_s * size * size;
  }
  bool is_over() const { return must_stop() || budget_.is_spent(); }

  static std::string describe_available(const DecidedJob& job) {
    return fmt::format(
        "there are {} devices, {} layers and {} micro-batches{}{}",
        job.tensor_groups.size() * at(job.model.stages.tensor()), job.model.stages.layers(),
        micro_batch_count(job.problem.job),
        requires_uniform_pipelines(job) ? "; uniform pipelines require equal numbers of micro-batches" : "",
        job.model.chunks > 1
            ? "; interleaved requires a multiple of the stages as micro-batches, and a layer per chunk"
            : "");
  }

  void keep(PlanCandidate candidate) {
    if (options_.keeps_pareto_front) pareto_front_.offer(candidate);
    pool_.keep(std::move(candidate));
  }

  void record_convergence() {
    if (!pool_.has_fitting()) return;
    auto& points = result_.convergence;
    const double best = pool_.best().score;
    if (points.empty() || best < points.back().cost) points.push_back({budget_.evaluated(), best});
    report_evaluations(budget_.evaluated());
  }

  Workers workers() const { return workers_of(options_.common); }

  /// Keeps the plans of `jobs` that work(0, score), …, work(count − 1, score) find, as far as the budget
  /// allows. The search must return a plan, so the first piece begins even after the time limit; with
  /// `until_one_fits`, pieces are done for a while after it until a plan fits in memory.
  template <class Work>
  void offer(int count, const DecidedJobs& jobs, const Work& work, bool until_one_fits = false) {
    if (budget_.is_spent()) return;
    const auto is_enough = [&](bool one_fits) {
      return must_stop() && (one_fits || !until_one_fits || is_interrupted() || is_overdue());
    };
    std::atomic<bool> one_fits = pool_.has_fitting();
    const PlanScore stoppable = score_.with_stop([&] { return is_enough(one_fits); });
    const auto piece = [&](int i) {
      EvaluatedPlans found = evaluate_and_count(stoppable, [&](const PlanScore& score) {
        if (i > 0 || !pool_.empty()) score.throw_if_stopped();
        return work(i, score);
      });
      for (const PlanCandidate& it : found.plans)
        if (it.deficit_bytes <= 0) one_fits = true;
      return found;
    };
    const bool is_limited = budget_.is_limited() || options_.common.time_limit;
    const auto is_over = [&] { return is_enough(pool_.has_fitting()); };
    take_in_order(count, workers(), jobs, is_limited, is_over, piece, [&](const EvaluatedPlans& found) {
      if (!pool_.has_fitting())
        budget_.count(found.evaluations);
      else if (!budget_.take(found.evaluations))
        return false;
      for (const PlanCandidate& candidate : found.plans) keep(candidate);
      return true;
    });
  }

  void offer_initial_plans(const DecidedJobPtr& job, const std::vector<Shape>& shapes, bool thorough) {
    constexpr std::size_t most = 3;
    const auto initial_plans_found = [&](int i, const PlanScore& score) {
      return initial_plans(job, shapes[at(i)], score, thorough, most, i == 0 && pool_.empty());
    };
    offer(static_cast<int>(shapes.size()), {job}, initial_plans_found, !thorough);
    record_convergence();
  }

  /// Copies the pointer, because the pool may move the plan that it belongs to.
  void screen_shapes(const DecidedJobPtr job) {
    screen_coarse_grid(job);
    screen_near_best(job);
  }

  /// Shapes with more devices come first, because they are most promising if evaluations run out.
  void screen_coarse_grid(const DecidedJobPtr& job) {
    std::vector<Shape> shapes = possible_shapes(*job, options_.limits, fine_ratio);
    if (shapes.size() > max_shapes_to_enumerate)
      shapes = possible_shapes(*job, options_.limits, coarse_ratio);
    std::stable_sort(shapes.begin(), shapes.end(), [](const Shape& a, const Shape& b) {
      return a.stages * a.replicas > b.stages * b.replicas;
    });
    offer_initial_plans(job, shapes, false);
  }

  void screen_near_best(const DecidedJobPtr& job) {
    const std::vector<Shape> centres = pool_.best_shapes(*job, screened_shapes);
    std::vector<Shape> nearby;
    for (const Shape& shape : possible_shapes(*job, options_.limits, fine_ratio))
      if (std::any_of(centres.begin(), centres.end(), [&](const Shape& centre) {
            return std::abs(shape.stages - centre.stages) <= 1 &&
                   shape.replicas <= coarse_ratio * centre.replicas &&
                   centre.replicas <= coarse_ratio * shape.replicas;
          }))
        nearby.push_back(shape);
    offer_initial_plans(job, nearby, true);
  }

  /// Compares all micro-batches, recomputations and tensor degrees with few shapes, and then the degrees on
  /// each GPU model, so that a short search does not depend on the order of decisions.
  void decide_early(const DecidedJobPtr& first) {
    offer_initial_plans(first, sparse_full_shapes(*first), false);
    if (pool_.empty() || is_over()) return;
    for (const DecidedJobPtr& job : decisions_.alternatives(*first)) {
      if (is_over()) return;
      offer_initial_plans(job, sparse_full_shapes(*job), false);
    }
    decide_schedule_early();
    decide_degrees_by_gpu();
  }

  /// Tries the schedules with several of the best decisions so far, because memory depends on both.
  void decide_schedule_early() {
    for (const DecidedJobPtr& base : pool_.best_jobs(jobs_per_schedule))
      for (const DecidedJobPtr& job : decisions_.alternatives(*base)) {
        Job same = job->problem.job;
        same.execution.schedule = base->problem.job.execution.schedule;
        same.execution.chunks = base->problem.job.execution.chunks;
        if (decisions_key(same) != decisions_key(base->problem.job)) continue;
        if (is_over()) return;
        offer_initial_plans(job, sparse_full_shapes(*job), false);
      }
  }

  std::vector<Shape> sparse_full_shapes(const DecidedJob& job) const {
    std::vector<Shape> shapes = full_shapes(job, options_.limits);
    std::erase_if(shapes, [&](const Shape& shape) {
      return !std::has_single_bit(static_cast<unsigned>(shape.stages)) &&
             shape.stages != options_.limits.stages;
    });
    return shapes;
  }

  /// Tries the best plans with one decision changed. Returns whether the best plan has improved.
  bool try_alternatives() {
    const PlanCandidate before = pool_.best();
    std::vector<std::pair<PlanCandidate, DecidedJobPtr>> tries;
    std::vector<PlanCandidate> bases = pool_.best_per_shape(deciders);
    add_missing(bases, pool_.best_per_job(deciders));
    for (const PlanCandidate& from : bases)
      for (const DecidedJobPtr& job : decisions_.alternatives(*from.job)) tries.emplace_back(from, job);
    DecidedJobs jobs;
    for (const auto& [from, job] : tries) jobs.push_back(job);
    offer(static_cast<int>(tries.size()), jobs, [&](int i, const PlanScore& score) {
      std::vector<PlanCandidate> candidates;
      const auto& [from, job] = tries[at(i)];
      if (auto same = transfer_plan(job, from, options_.limits, score))
        candidates.push_back(std::move(*same));
      const Shape shape = limited(from.shape(), *job);
      if (!is_possible(*job, shape, options_.limits)) return candidates;
      for (PlanCandidate& start : initial_plans(job, shape, score, false, 1))
        candidates.push_back(std::move(start));
      for (PlanCandidate& it : candidates) it = refine_layer_cuts(std::move(it), score);
      return candidates;
    });
    return is_better(pool_.best(), before);
  }

  /// Reduces a shape to the available tensor-parallel groups.
  static Shape limited(Shape shape, const DecidedJob& job) {
    const int tensor_groups = static_cast<int>(job.tensor_groups.size());
    shape.stages =
        std::max(1, std::min({shape.stages, tensor_groups, job.model.stages.layers() / job.model.chunks}));
    shape.replicas = std::clamp(shape.replicas, 1, tensor_groups / shape.stages);
    return shape;
  }

  /// The best shape depends on the micro-batch: larger ones allow fewer pipelines. So each one is screened
  /// with some shapes of its own; with few shapes, also with other recomputation and tensor degrees, which
  /// memory depends on too.
  void screen_micro_batches() {
    const DecidedJobPtr best = pool_.best().job;
    const Job& now = best->problem.job;
    const bool are_few =
        possible_shapes(*best, options_.limits, fine_ratio).size() <= max_shapes_to_enumerate;
    if (is_over()) return;
    for (const DecidedJobPtr& job : decisions_.alternatives(*best)) {
      Job same = job->problem.job;
      same.execution.micro_batch = now.execution.micro_batch;
      if (are_few) {
        same.execution.recomputation = now.execution.recomputation;
        same.parallelism.tensor = now.parallelism.tensor;
      }
      if (decisions_key(same) == decisions_key(now))
        offer_initial_plans(job, sparse_shapes(*job, options_.limits), false);
    }
  }

  void decide() {
    std::set<DecidedJobPtr> done = {pool_.best().job};
    screen_micro_batches();
    if (!is_over() && done.insert(pool_.best().job).second) screen_shapes(pool_.best().job);
    for (int round = 0; round < decision_rounds && !is_over() && try_alternatives(); ++round) {
      const DecidedJobPtr best = pool_.best().job;
      if (done.insert(best).second) screen_shapes(best);
      record_convergence();
    }
    for (const DecidedJobPtr& job : decisions_.mixed_degrees(*pool_.best().job)) screen_coarse_grid(job);
    if (const DecidedJobPtr job = decisions_.with_any_degree(*pool_.best().job)) screen_coarse_grid(job);
    decide_degrees_by_gpu();
    const DecidedJobPtr best = pool_.best().job;
    if (best->has_mixed_degrees() && !is_over()) screen_near_best(best);
  }

  /// Changes the tensor degree on one GPU model at a time, then the other decisions, as long as that helps.
  void decide_degrees_by_gpu() {
    for (int round = 0; round < decision_rounds && !is_over(); ++round) {
      const PlanCandidate before = pool_.best();
      for (const DecidedJobPtr& job : decisions_.degrees_by_gpu(*before.job))
        offer_initial_plans(job, full_shapes(*job, options_.limits), false);
      if (pool_.best().job == before.job || is_over()) return;
      try_alternatives();
      record_convergence();
    }
  }

  struct Island {
    PlanCandidate start, reached;
  };

  /// Anneals in rounds until no move is possible or the limit is reached. All rounds start from plans of the
  /// screening, since annealed plans are local optima. Starts that led to the best plans continue in the next
  /// round (successive halving).
  void anneal() {
    if (is_over()) return;
    const bool is_limited = options_.common.evaluations || options_.common.time_limit;
    const bool uses_full_budget = is_limited && options_.uses_full_budget;
    const auto of_few =
        static_cast<std::size_t>(islands_of_few * move_multiplier(pool_.best().job->tensor_groups.size()));
    std::vector<PlanCandidate> starts = pool_.best_per_shape(std::max(first_islands, of_few));
    if (decisions_.has_undecided()) add_missing(starts, pool_.best_per_job(islands));
    std::vector<Island> all = islands_from(starts);
    int idle_rounds = 0;
    for (int round = 0;; ++round) {
      if (round >= default_rounds) {
        evolve_and_decide(static_cast<std::uint64_t>(round));
        if (!uses_full_budget || is_over()) return;
      }
      const double share =
          std::ldexp(1.0, std::max(0, std::min(round, max_doublings) - default_rounds + 1)) / default_rounds;
      const std::uint64_t generation = 2 * static_cast<std::uint64_t>(round);
      const PlanCandidate before = pool_.best();
      const bool has_moved = anneal(all, first_share * share, initial_temperature, generation + 1);
      if (!has_moved || is_over()) return;
      std::vector<Island> later = islands_from(pool_.best_diverse(later_islands));
      anneal(later, (1 - first_share) * share, later_initial_temperature, generation + 2);
      if (is_over()) return;
      keep_best(all, std::max(min_islands, all.size() / 2));
      idle_rounds = is_better(pool_.best(), before) ? 0 : idle_rounds + 1;
      if (idle_rounds >= max_idle_rounds && !options_.keeps_pareto_front)
        round = std::max(round, default_rounds - 1);
      if (round + 1 < default_rounds || !decisions_.has_undecided() || !try_alternatives()) continue;
      all = islands_from(pool_.best_diverse(islands));
      record_convergence();
    }
  }

  static void add_missing(std::vector<PlanCandidate>& plans, const std::vector<PlanCandidate>& more) {
    for (const PlanCandidate& candidate : more)
      if (std::none_of(plans.begin(), plans.end(), [&](const PlanCandidate& it) {
            return it.job == candidate.job && it.plan == candidate.plan;
          }))
        plans.push_back(candidate);
  }

  /// Skips plans whose pipelines differ in depth, which annealing does not support.
  static std::vector<Island> islands_from(const std::vector<PlanCandidate>& starts) {
    std::vector<Island> result;
    for (const PlanCandidate& start : starts)
      if (are_equally_deep(start.plan)) result.push_back({start, start});
    return result;
  }

  static void keep_best(std::vector<Island>& all, std::size_t most) {
    std::stable_sort(all.begin(), all.end(),
                     [](const Island& a, const Island& b) { return is_better(a.reached, b.reached); });
    if (all.size() > most) all.erase(all.begin() + static_cast<long>(most), all.end());
  }

  /// Moves of one of `islands_now` islands, which together get `share` of the moves (or of the effort, if
  /// that is less) of a search without limits.
  static long long moves_of(const PlanCandidate& start, double share, std::size_t islands_now) {
    const auto parts = static_cast<double>(islands_now);
    const auto moves = affordable_moves(start, first_share * default_moves / parts, 2 * parts);
    return static_cast<long long>(std::ceil(static_cast<double>(moves) * share / first_share));
  }

  /// Evolves the best plans. Then tries other decisions, anneals the best plan of each, and repeats both as
  /// long as that helps.
  void evolve_and_decide(std::uint64_t round) {
    for (int time = 0; time < decision_rounds && !is_over(); ++time) {
      const std::uint64_t number = round * decision_rounds + static_cast<std::uint64_t>(time);
      evolve(number);
      if (is_over() || !decisions_.has_undecided()) return;
      const PlanCandidate before = pool_.best();
      try_alternatives();
      if (is_over()) return;
      std::vector<Island> of_jobs = islands_from(pool_.best_per_job(islands));
      anneal(of_jobs, first_share / default_rounds, later_initial_temperature,
             first_late_generation + number);
      if (!is_better(pool_.best(), before)) return;
      record_convergence();
    }
  }

  /// Evolves the best plans, in epochs. Every island of an epoch starts from the same plans, the best so far,
  /// with random numbers of its own. Unlike annealing, evolution changes the number and depth of pipelines.
  void evolve(std::uint64_t round) {
    if (is_over() || options_.warm || options_.keeps_pareto_front || !pool_.has_fitting()) return;
    int idle_epochs = 0;
    for (int epoch = 0; epoch < evolution_epochs && idle_epochs < max_idle_epochs && !is_over(); ++epoch) {
      std::vector<PlanCandidate> starts = plans_to_evolve();
      if (starts.empty()) return;
      const PlanCandidate before = starts.front();
      const DecidedJobs jobs = jobs_to_evolve(before);
      std::erase_if(starts, [&](const PlanCandidate& it) {
        return std::find(jobs.begin(), jobs.end(), it.job) == jobs.end();
      });
      const double multiplier = move_multiplier(before.job->tensor_groups.size());
      const long long children = affordable_moves(before, multiplier * children_per_island,
                                                  evolution_epochs * evolution_islands / evolution_effort);
      const auto island = [&](int i, const PlanScore& score) {
        const auto task = (round << 32) + static_cast<std::uint64_t>(epoch * evolution_islands + i);
        Rng rng = Rng::for_task(options_.common.seed, task);
        return evolve_plans(starts, jobs, options_.limits, score, children, rng, [&] { return must_stop(); });
      };
      offer(evolution_islands, jobs, island);
      record_convergence();
      idle_epochs = is_better(plans_to_evolve().front(), before) ? 0 : idle_epochs + 1;
    }
  }

  /// The plans of the pool that evolution supports, the best one first.
  std::vector<PlanCandidate> plans_to_evolve() const {
    std::vector<PlanCandidate> plans = pool_.best_diverse(max_kept_);
    std::erase_if(plans, [](const PlanCandidate& it) { return !can_evolve(*it.job); });
    if (!plans.empty())
      std::iter_swap(plans.begin(), std::min_element(plans.begin(), plans.end(), is_better));
    return plans;
  }

  /// Jobs of the pool and alternatives of `best` that can be evolved together with it.
  DecidedJobs jobs_to_evolve(const PlanCandidate& best) {
    DecidedJobs jobs = pool_.best_jobs(max_kept_);
    const auto add = [&](const DecidedJobPtr& job) {
      if (job && std::find(jobs.begin(), jobs.end(), job) == jobs.end()) jobs.push_back(job);
    };
    for (const DecidedJobPtr& job : decisions_.alternatives(*best.job)) add(job);
    add(decisions_.with_any_degree(*best.job));
    const std::vector<int> degrees = tensor_degrees(best.plan);
    std::erase_if(jobs, [&](const DecidedJobPtr& job) {
      const int degree = job->problem.job.parallelism.tensor;
      return !can_evolve(*job) || (!job->has_mixed_degrees() &&
                                   std::find(degrees.begin(), degrees.end(), degree) == degrees.end());
    });
    return jobs;
  }

  double elapsed_s() const {
    return std::chrono::duration<double>(now_of(options_.common.ranks) - begin_).count();
  }

  /// Cooling schedules of `all`. If the budget is not sufficient for all of them, each is cut short.
  std::vector<PlanCoolingSchedule> coolings(const std::vector<Island>& all, double share, double from) const {
    std::vector<PlanCoolingSchedule> result;
    double needed = 0;
    for (const auto& [start, reached] : all) {
      PlanCoolingSchedule cooling{moves_of(start, share, all.size()), from, final_temperature};
      cooling.keeps_pareto_front = options_.keeps_pareto_front;
      needed += static_cast<double>(cooling.moves + 1 + max_fitting_evaluations(*start.job));
      result.push_back(cooling);
    }
    const auto left = static_cast<double>(budget_.left());
    for (PlanCoolingSchedule& it : result)
      if (needed > left)
        it.evaluations = static_cast<long long>(static_cast<double>(it.moves + 1) * left / needed);
    return result;
  }

  /// Anneals, then fits layers, micro-batches and the order of a ring to the resulting devices, if that is
  /// better.
  AnnealedPlan anneal_and_fit(const PlanCandidate& start, const PlanCoolingSchedule& cooling, Rng& rng,
                              const std::function<bool()>& stop) const {
    if (cooling.evaluations < 1) return {start, 0, false, {}};
    const PlanScore score = score_.with_own_count().with_stop([this] { return must_stop(); });
    AnnealedPlan result = anneal_plan(start, score, cooling, rng, stop);
    if (result.evaluations == 1 || !result.is_complete || cooling.evaluations <= cooling.moves) return result;
    const auto offer = [&](PlanCandidate changed) {
      if (is_better(changed, result.best)) result.best = std::move(changed);
    };
    try {
      offer(fit_plan(result.best.job, result.best.plan, score));
      offer(refine_layer_cuts(result.best, score));
      offer(order_pipelines(result.best, score));
    } catch (const WorkStopped&) {
    }
    result.evaluations += score.evaluated();
    return result;
  }

  /// Returns whether a move was evaluated.
  bool anneal(std::vector<Island>& all, double share, double from, std::uint64_t generation) {
    const std::vector<PlanCoolingSchedule> cooling = coolings(all, share, from);
    std::atomic<long long> asked{0};
    const int ranks =
        options_.common.ranks ? options_.common.ranks->size() : 1;  // assumed to be equally fast
    const auto stop = [&] {
      report(asked += ranks);
      return must_stop();
    };
    const auto task = [&](int i) {
      Rng rng = Rng::for_task(options_.common.seed, generation * 1000 + static_cast<std::uint64_t>(i));
      return anneal_and_fit(all[at(i)].start, cooling[at(i)], rng, stop);
    };
    DecidedJobs jobs;
    for (const Island& it : all) jobs.push_back(it.start.job);
    const auto found = distributed_map(static_cast<int>(all.size()), workers(), task, PlanCodec{jobs});
    bool has_moved = false;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const AnnealedPlan& it = found[i];
      if (is_better(it.best, all[i].reached)) all[i].reached = it.best;
      has_moved = has_moved || it.evaluations > 1;
      budget_.count(it.evaluations);
      if (!it.is_complete) budget_.end();
      keep(it.best);
      for (const PlanCandidate& candidate : it.front) pareto_front_.offer(candidate);
    }
    record_convergence();
    return has_moved;
  }

  /// Thread-safe. `asked` is the number of stop checks so far in all runs of the current annealing.
  void report(long long asked) {
    const std::unique_lock lock(progress_mutex_, std::try_to_lock);
    if (lock.owns_lock()) report_evaluations(budget_.evaluated() + asked * moves_between_stop_checks);
  }

  /// Moves of a search without limits.
  long long own_moves() const {
    return static_cast<long long>(default_moves * move_multiplier(pool_.best().job->tensor_groups.size()));
  }

  void report_evaluations(long long evaluations) const {
    if (!options_.common.on_progress) return;
    const bool is_open_ended =
        options_.common.time_limit && options_.uses_full_budget && !budget_.is_limited();
    const long long most = is_open_ended ? 0 : options_.common.evaluations.value_or(own_moves());
    const long long budget = most > 0 ? std::max(most, evaluations) : 0;
    options_.common.on_progress({evaluations, budget, pool_.best().iteration_s, 0});
  }

  void minimize_finalist_migration() {
    const int count = static_cast<int>(result_.finalists.size());
    const long long most = budget_.left() / count;
    const auto task = [&](int i) {
      const PlanScore score = score_.with_own_count();
      const auto stop = [&] {
        return is_interrupted() || is_late(1 - simulation_time_share) || score.evaluated() >= most;
      };
      PlanCandidate plan = minimize_migration(result_.finalists[at(i)], score, stop);
      return EvaluatedPlans{{std::move(plan)}, score.evaluated()};
    };
    DecidedJobs jobs;
    for (const PlanCandidate& it : result_.finalists) jobs.push_back(it.job);
    const auto minimized = distributed_map(count, workers(), task, PlanCodec{jobs});
    result_.finalists.clear();
    for (const EvaluatedPlans& it : minimized) {
      result_.finalists.push_back(it.plans.front());
      result_.evaluations += it.evaluations;
    }
  }

  /// Inserts the plan at the front, so that it comes first among equally good plans.
  void insert_finalist(const PlanCandidate& unchanged) {
    auto& finalists = result_.finalists;
    std::erase_if(finalists, [&](const PlanCandidate& it) {
      return it.job == unchanged.job && it.plan == unchanged.plan;
    });
    finalists.insert(finalists.begin(), unchanged);
    if (static_cast<int>(finalists.size()) > std::max(2, options_.finalists)) finalists.pop_back();
  }

  void finish() {
    if (best_before_exclusion_) pool_.keep(*best_before_exclusion_);
    result_.evaluations = budget_.evaluated();
    result_.front = pareto_front_.plans();
    result_.finalists = pool_.best_diverse(at(options_.finalists));
    if (options_.warm) minimize_finalist_migration();
    if (result_.unchanged) insert_finalist(*result_.unchanged);
    std::stable_sort(result_.finalists.begin(), result_.finalists.end(), is_better);
    if (result_.finalists.front().deficit_bytes > 0)
      result_.finalists.resize(1);
    else
      std::erase_if(result_.finalists, [](const PlanCandidate& it) { return it.deficit_bytes > 0; });
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
  double device_count_;
  std::chrono::steady_clock::time_point begin_;
  EvaluationBudget budget_;
  std::size_t max_kept_;
  PlanPool pool_;
  std::optional<PlanCandidate> best_before_exclusion_;
  ParetoFront pareto_front_{max_pareto_front_size};
  std::mutex progress_mutex_;
  IterationSearchResult result_;
};

}  // namespace

IterationSearchResult search_iteration(const Problem& problem, const IterationSearchOptions& options) {
  return IterationSearch(problem, options).run();
}

}  // namespace dtfm::search
