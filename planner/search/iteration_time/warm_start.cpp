#include "planner/search/iteration_time/warm_start.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "planner/core/virtual_stages.hpp"
#include "planner/search/iteration_time/unit_seats.hpp"

namespace dtfm::search {
namespace {

// Set by hand: what is tried is a start for annealing, which tries the rest.
constexpr std::size_t most_tried = 64;  // unused units for a seat
constexpr int most_wider = 8;           // numbers of more pipelines

bool are_equally_deep(const Plan& plan) {
  return std::all_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const Pipeline& it) {
    return it.stages.size() == plan.pipelines.front().stages.size();
  });
}

struct Seat {
  std::size_t pipeline = 0, stage = 0;
};

/// Without the devices of stages of which one is gone or cannot be used, or that are of no degree of the job.
/// Of one degree, stages that are no unit are left out, too.
Plan intact_stages(Plan plan, const DecidedJob& job) {
  const UnitNumbers numbers(job.units);
  std::set<int> usable;
  for (const auto& unit : job.units) usable.insert(unit.begin(), unit.end());
  const auto is_intact = [&](const std::vector<int>& devices) {
    if (!job.has_unlike_degrees()) return numbers.of(devices) != nobody;
    return job.model.has_degree(devices.size()) &&
           std::all_of(devices.begin(), devices.end(), [&](int it) { return usable.contains(it); });
  };
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages)
      if (!is_intact(stage.devices)) stage.devices.clear();
  return plan;
}

class Repair {
 public:
  Repair(const Plan& plan, const std::shared_ptr<const DecidedJob>& job, const PlanScore& score,
         const std::function<bool()>& stop)
      : job_(job),
        score_(score),
        stop_(stop),
        plan_(intact_stages(plan, *job)),
        units_(units_beside(*job, plan_)),
        numbers_(units_),
        lacking_(units_, score.moving()),
        is_used_(units_.size()) {
    plan_.schedule = job->problem.job.parallelism.schedule;
    plan_.gradient_sync = job->problem.job.parallelism.gradient_sync;
    for (Pipeline& pipeline : plan_.pipelines)
      for (Stage& stage : pipeline.stages)
        if (!stage.devices.empty()) take(stage, numbers_.of(stage.devices));
  }

  /// Every seat taken; without any pipeline where there are not enough units for one.
  Plan filled() {
    drop_what_cannot_be();
    if (plan_.pipelines.empty()) return plan_;
    const std::vector<Seat> seats = fill();
    const int step = batch_step(*job_, depth(plan_));
    const bool is_whole = std::all_of(plan_.pipelines.begin(), plan_.pipelines.end(),
                                      [&](const Pipeline& it) { return it.micro_batches % step == 0; });
    if (!is_whole || micro_batches_of(plan_) != micro_batch_count(job_->problem.job.training))
      deal_evenly(*job_, plan_);
    if (!seats.empty()) find_best(seats);
    plan_.tensor = tensor_degrees(plan_).back();
    return plan_;
  }

  /// With `count` pipelines more, like the first, on unused units as they stand side by side.
  Plan wider(const Plan& plan, int count) const {
    Plan result = plan;
    std::vector<int> units = unused();
    std::size_t next = 0;
    for (int i = 0; i < count; ++i) {
      result.pipelines.push_back(plan.pipelines.front());
      for (Stage& stage : result.pipelines.back().stages) stage.devices = units_[at(units[next++])];
    }
    deal_evenly(*job_, result);
    result.tensor = tensor_degrees(result).back();
    return result;
  }

  std::vector<int> unused() const {
    std::vector<int> units;
    for (std::size_t unit = 0; unit < is_used_.size(); ++unit)
      if (!is_used_[unit]) units.push_back(static_cast<int>(unit));
    return units;
  }

 private:
  static int empty_seats(const Pipeline& pipeline) {
    return static_cast<int>(std::count_if(pipeline.stages.begin(), pipeline.stages.end(),
                                          [](const Stage& it) { return it.devices.empty(); }));
  }

  void drop_what_cannot_be() {
    while (true) {
      int lacking = 0;
      auto worst = plan_.pipelines.end();
      for (auto it = plan_.pipelines.begin(); it != plan_.pipelines.end(); ++it) {
        const int empty = empty_seats(*it);
        lacking += empty;
        if (empty > 0 && (worst == plan_.pipelines.end() || empty >= empty_seats(*worst))) worst = it;
      }
      if (lacking <= static_cast<int>(unused().size())) return;
      for (const Stage& stage : worst->stages)
        if (!stage.devices.empty()) is_used_[at(numbers_.of(stage.devices))] = false;
      plan_.pipelines.erase(worst);
    }
  }

  void take(Stage& stage, int unit) {
    stage.devices = units_[at(unit)];
    is_used_[at(unit)] = true;
  }

  /// Unused ones, those that lack least of the seat's layers first.
  std::vector<int> units_for(const Seat& seat) {
    const auto layers = layers_of_stages(plan_.pipelines[seat.pipeline], job_->model.chunks);
    const std::vector<double>& lacking = lacking_.of(layers[seat.stage]);
    std::vector<int> units = unused();
    std::stable_sort(units.begin(), units.end(),
                     [&](int a, int b) { return lacking[at(a)] < lacking[at(b)]; });
    return units;
  }

  /// The seats that were empty.
  std::vector<Seat> fill() {
    std::vector<Seat> seats;
    for (std::size_t p = 0; p < plan_.pipelines.size(); ++p)
      for (std::size_t s = 0; s < plan_.pipelines[p].stages.size(); ++s)
        if (Stage& stage = plan_.pipelines[p].stages[s]; stage.devices.empty()) {
          seats.push_back({p, s});
          take(stage, units_for(seats.back()).front());
        }
    return seats;
  }

  bool must_stop() const { return prices_ >= most_prices || (stop_ && stop_()); }

  void find_best(const std::vector<Seat>& seats) {
    cost::IterationTimer timer(job_->model, plan_);
    if (job_->model.flush == 0 && timer.lacking_bytes() > 0)  // else all units are as bad
      timer.set_flush(timer.fitting_flush());
    std::optional<cost::MovingTimer> moving;
    if (score_.moving()) moving.emplace(*score_.moving(), job_->model.chunks);
    const auto price = [&] {
      ++prices_;
      return timed_plan(job_, timer, moving ? &*moving : nullptr, score_);
    };
    PlanCandidate best = price();
    for (const auto& [pipeline, stage] : seats) {
      std::vector<int> units = units_for({pipeline, stage});
      if (units.size() > most_tried) units.resize(most_tried);
      const auto put = [&, p = static_cast<int>(pipeline), s = static_cast<int>(stage)](int unit) {
        timer.set_devices(p, s, units_[at(unit)]);
      };
      Stage& taken = plan_.pipelines[pipeline].stages[stage];
      int chosen = numbers_.of(taken.devices);
      is_used_[at(chosen)] = false;
      for (const int unit : units) {
        if (must_stop()) break;
        put(unit);
        const PlanCandidate other = price();
        if (!is_better(other, best)) continue;
        best = other;
        chosen = unit;
      }
      take(taken, chosen);
      put(chosen);
    }
  }

  const std::shared_ptr<const DecidedJob>& job_;
  const PlanScore& score_;
  const std::function<bool()>& stop_;
  Plan plan_;
  std::vector<std::vector<int>> units_;
  UnitNumbers numbers_;
  LackingBytes lacking_;
  std::vector<bool> is_used_;  // of each unit
  long long prices_ = 0;
};

/// Can the job's schedule run the plan's stages?
bool has_layers_for_chunks(const Plan& plan, const DecidedJob& job) {
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (stage.layers.second - stage.layers.first < job.model.chunks) return false;
  return true;
}

/// Is there a stage that can stay?
bool has_any_stage(const Plan& plan, const DecidedJob& job) {
  return !pipeline_major(intact_stages(plan, job)).empty();
}

Plan without_site(const Plan& plan, int site, const DecidedJob& job) {
  Plan result = plan;
  std::erase_if(result.pipelines, [&](const Pipeline& pipeline) {
    return std::any_of(pipeline.stages.begin(), pipeline.stages.end(), [&](const Stage& stage) {
      return std::any_of(stage.devices.begin(), stage.devices.end(),
                         [&](int device) { return job.problem.topology.devices[at(device)].site == site; });
    });
  });
  if (result.pipelines.empty()) return result;
  deal_evenly(job, result);
  result.tensor = tensor_degrees(result).back();
  return result;
}

/// Without the pipelines on a site, and on another one, as long as that is better: what a link that has
/// become slow asks for, and no exchange of two units leads to.
Plan narrower(const PlanCandidate& from, const PlanScore& score, const std::function<bool()>& stop) {
  const int sites = static_cast<int>(from.job->problem.topology.sites.size());
  PlanCandidate best = from;
  for (std::size_t before = 0; before != best.plan.pipelines.size();) {
    before = best.plan.pipelines.size();
    const Plan now = best.plan;
    for (int site = 0; site < sites; ++site) {
      if (stop && stop()) return best.plan;
      Plan other = without_site(now, site, *from.job);
      if (other.pipelines.empty() || other.pipelines.size() == now.pipelines.size()) continue;
      PlanCandidate candidate = priced_plan(from.job, std::move(other), from.flush, score);
      if (is_better(candidate, best)) best = std::move(candidate);
    }
  }
  return best.plan;
}

}  // namespace

bool stands_on_units(const Plan& plan, const DecidedJob& job) {
  if (!are_equally_deep(plan)) return false;
  const auto units = units_beside(job, plan);
  const UnitNumbers numbers(units);
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (const int unit = numbers.of(stage.devices); unit == nobody || units[at(unit)] != stage.devices)
        return false;
  return true;
}

std::optional<PlanCandidate> unchanged_plan(const Plan& plan, int flush,
                                            const std::shared_ptr<const DecidedJob>& job,
                                            const ShapeLimits& limits, const PlanScore& score) {
  const Job& of = job->problem.job;
  const int replicas = static_cast<int>(plan.pipelines.size());
  if (limits.stages.value_or(depth(plan)) != depth(plan) || limits.replicas.value_or(replicas) != replicas)
    return std::nullopt;
  if (micro_batches_of(plan) != micro_batch_count(of.training) || !has_layers_for_chunks(plan, *job))
    return std::nullopt;
  const int step = batch_step(*job, depth(plan));
  if (flush % step != 0 && flush < micro_batches_of(plan)) return std::nullopt;
  if (step > 1 && (!are_equally_deep(plan) || !is_possible(*job, {depth(plan), replicas}, limits)))
    return std::nullopt;
  for (const Pipeline& pipeline : plan.pipelines) {
    if (pipeline.micro_batches % step != 0) return std::nullopt;
    for (const Stage& stage : pipeline.stages) {
      if (!job->model.has_degree(stage.devices.size())) return std::nullopt;
      for (const int device : stage.devices)
        if (device == cost::no_device || !job->model.unknown(device).empty()) return std::nullopt;
    }
  }
  Plan same = plan;
  same.schedule = of.parallelism.schedule;
  same.gradient_sync = of.parallelism.gradient_sync;
  PlanCandidate candidate = priced_plan(job, std::move(same), flush, score);
  if (!std::isfinite(candidate.score)) return std::nullopt;  // a device has no price, which is needed
  return candidate;
}

std::vector<PlanCandidate> repaired_plans(const Plan& plan, const std::shared_ptr<const DecidedJob>& job,
                                          const ShapeLimits& limits, const PlanScore& score,
                                          const std::function<bool()>& stop) {
  std::vector<PlanCandidate> plans;
  if (!are_equally_deep(plan) || !has_layers_for_chunks(plan, *job) || !has_any_stage(plan, *job))
    return plans;
  Repair repair(plan, job, score, stop);
  const auto offer = [&](PlanCandidate candidate) {
    if (is_possible(*job, candidate.shape(), limits)) plans.push_back(std::move(candidate));
  };
  const Plan filled = repair.filled();
  if (filled.pipelines.empty()) return plans;
  const PlanCandidate fitted = fitted_plan(job, filled, score);
  offer(fitted);
  if (Plan less = narrower(fitted, score, stop); less.pipelines.size() < filled.pipelines.size())
    offer(fitted_plan(job, std::move(less), score));
  const int spare = static_cast<int>(repair.unused().size()) / depth(filled);
  const int step = std::max(1, (spare + most_wider - 1) / most_wider);
  for (int more = spare; more > 0 && !(stop && stop()); more -= step)
    if (is_possible(*job, {depth(filled), static_cast<int>(filled.pipelines.size()) + more}, limits))
      offer(fitted_plan(job, repair.wider(filled, more), score));
  std::stable_sort(plans.begin(), plans.end(), is_better);
  return plans;
}

}  // namespace dtfm::search
