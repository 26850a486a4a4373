#include "planner/search/warm_start.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "planner/core/index.hpp"

namespace dtfm {
namespace {

constexpr int nobody = -1;
// Set by hand: what is tried is a start for annealing, which tries the rest.
constexpr std::size_t most_tried = 64;  // unused units for a seat
constexpr int most_wider = 8;           // numbers of more pipelines

/// The unit that stands on `devices`, in any order; `nobody` where none does.
class UnitNumbers {
 public:
  explicit UnitNumbers(const DecidedJob& job) : units_(job.units) {
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
      of_first_[*std::min_element(units_[unit].begin(), units_[unit].end())] = static_cast<int>(unit);
  }
  int of(const std::vector<int>& devices) const {
    const auto found = of_first_.find(*std::min_element(devices.begin(), devices.end()));
    if (found == of_first_.end()) return nobody;
    const std::vector<int>& unit = units_[at(found->second)];
    return std::is_permutation(unit.begin(), unit.end(), devices.begin(), devices.end()) ? found->second
                                                                                         : nobody;
  }

 private:
  const std::vector<std::vector<int>>& units_;
  std::map<int, int> of_first_;
};

bool are_equally_deep(const Plan& plan) {
  return std::all_of(plan.pipelines.begin(), plan.pipelines.end(), [&](const Pipeline& it) {
    return it.stages.size() == plan.pipelines.front().stages.size();
  });
}

long long micro_batches_of(const Plan& plan) {
  long long sum = 0;
  for (const Pipeline& pipeline : plan.pipelines) sum += pipeline.micro_batches;
  return sum;
}

struct Seat {
  std::size_t pipeline = 0, stage = 0;
};

class Repair {
 public:
  Repair(Plan plan, const std::shared_ptr<const DecidedJob>& job, const PlanScore& score)
      : plan_(std::move(plan)), job_(job), score_(score), is_used_(job->units.size()) {
    plan_.schedule = job->problem.job.parallelism.schedule;
    plan_.gradient_sync = job->problem.job.parallelism.gradient_sync;
    const UnitNumbers numbers(*job);
    for (Pipeline& pipeline : plan_.pipelines)
      for (Stage& stage : pipeline.stages)
        if (const int unit = numbers.of(stage.devices); unit != nobody)
          take(stage, unit);
        else
          stage.devices.clear();
  }

  /// Every seat taken; without any pipeline where there are not enough units for one.
  Plan filled() {
    drop_what_cannot_be();
    std::vector<Seat> seats;
    std::vector<int> units = unused();
    for (std::size_t p = 0; p < plan_.pipelines.size(); ++p)
      for (std::size_t s = 0; s < plan_.pipelines[p].stages.size(); ++s)
        if (plan_.pipelines[p].stages[s].devices.empty()) {
          take(plan_.pipelines[p].stages[s], units.back());
          units.pop_back();
          seats.push_back({p, s});
        }
    if (plan_.pipelines.empty()) return plan_;
    const int step = batch_step(*job_, depth(plan_));
    const bool is_whole = std::all_of(plan_.pipelines.begin(), plan_.pipelines.end(),
                                      [&](const Pipeline& it) { return it.micro_batches % step == 0; });
    if (!is_whole || micro_batches_of(plan_) != micro_batch_count(job_->problem.job.training))
      deal_evenly(*job_, plan_);
    for (const Seat& seat : seats) find_best(seat);
    return plan_;
  }

  /// With `count` pipelines more, like the first, on unused units as they stand side by side.
  Plan wider(const Plan& plan, int count) const {
    Plan result = plan;
    std::vector<int> units = unused();
    std::size_t next = 0;
    for (int i = 0; i < count; ++i) {
      result.pipelines.push_back(plan.pipelines.front());
      for (Stage& stage : result.pipelines.back().stages) stage.devices = job_->units[at(units[next++])];
    }
    deal_evenly(*job_, result);
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
    const UnitNumbers numbers(*job_);
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
        if (!stage.devices.empty()) is_used_[at(numbers.of(stage.devices))] = false;
      plan_.pipelines.erase(worst);
    }
  }

  void take(Stage& stage, int unit) {
    stage.devices = job_->units[at(unit)];
    is_used_[at(unit)] = true;
  }

  void find_best(Seat seat) {
    Stage& stage = plan_.pipelines[seat.pipeline].stages[seat.stage];
    std::vector<int> units = unused();
    if (units.size() > most_tried) units.resize(most_tried);
    int chosen = UnitNumbers(*job_).of(stage.devices);
    is_used_[at(chosen)] = false;
    PlanCandidate best = priced_plan(job_, plan_, 0, score_);
    for (const int unit : units) {
      stage.devices = job_->units[at(unit)];
      PlanCandidate other = priced_plan(job_, plan_, 0, score_);
      if (!is_better(other, best)) continue;
      best = std::move(other);
      chosen = unit;
    }
    take(stage, chosen);
  }

  Plan plan_;
  const std::shared_ptr<const DecidedJob>& job_;
  const PlanScore& score_;
  std::vector<bool> is_used_;  // of each unit
};

class Settler {
 public:
  Settler(const PlanCandidate& candidate, const PlanScore& score)
      : job_(*candidate.job),
        from_(candidate),
        score_(score),
        moving_(*score.moving(), job_.model.chunks),
        timer_(job_.model, candidate.plan),
        seat_of_(job_.units.size(), nobody) {
    timer_.set_flush(candidate.flush);
    const UnitNumbers numbers(job_);
    for (int p = 0; at(p) < candidate.plan.pipelines.size(); ++p) {
      const Pipeline& pipeline = candidate.plan.pipelines[at(p)];
      const auto layers = layers_of_stages(pipeline, job_.model.chunks);
      for (int s = 0; at(s) < pipeline.stages.size(); ++s) {
        const int unit = numbers.of(pipeline.stages[at(s)].devices);
        seat_of_[at(unit)] = static_cast<int>(seats_.size());
        auto& lacking = lacking_[layers[at(s)]];
        if (lacking.empty())
          for (const std::vector<int>& devices : job_.units)
            lacking.push_back(score.moving()->lacking_bytes(devices, layers[at(s)]));
        seats_.push_back({p, s, unit, &lacking});
      }
    }
  }

  Plan run() {
    for (bool is_better = true; is_better;) {
      is_better = false;
      for (int seat = 0; at(seat) < seats_.size(); ++seat) is_better = settle(seat) || is_better;
    }
    return timer_.plan();
  }

 private:
  struct Taken {  // a seat
    int pipeline = 0, stage = 0, unit = 0;
    const std::vector<double>* lacking;  // bytes, of each unit in this seat
  };

  /// A unit that lacks nothing there takes the seat; the one that had it goes where that one was.
  bool settle(int seat) {
    const Taken& taken = seats_[at(seat)];
    const int now = taken.unit;
    const double lacks = (*taken.lacking)[at(now)];
    if (lacks <= 0) return false;
    for (int home = 0; at(home) < job_.units.size(); ++home) {
      if ((*taken.lacking)[at(home)] > 0) continue;
      if (const int other = seat_of_[at(home)]; other != nobody) {
        const std::vector<double>& there = *seats_[at(other)].lacking;
        if (there[at(now)] - there[at(home)] >= lacks) continue;
      }
      if (priced_++ >= most_priced) return false;
      exchange(seat, home);
      if (is_as_good()) return true;
      exchange(seat, now);
    }
    return false;
  }

  /// `unit` takes the seat; the one that had it goes to the seat of `unit`, if that has one.
  void exchange(int seat, int unit) {
    const int before = seats_[at(seat)].unit, other = seat_of_[at(unit)];
    put(seat, unit);
    seat_of_[at(before)] = other;
    if (other != nobody) put(other, before);
  }

  void put(int seat, int unit) {
    Taken& taken = seats_[at(seat)];
    taken.unit = unit;
    seat_of_[at(unit)] = seat;
    timer_.set_devices(taken.pipeline, taken.stage, job_.units[at(unit)]);
  }

  /// But for rounding, which is not the same where equal devices change places.
  bool is_as_good() {
    constexpr double rounding = 1e-9;
    const Plan& plan = timer_.plan();
    const double score = score_.of(timer_.iteration_s(), score_.total_weight(plan), timer_.egress_usd(),
                                   moving_.seconds(plan));
    return score <= from_.score * (1 + rounding) && timer_.lacking_bytes() <= from_.lacking;
  }

  static constexpr int most_priced = 5000;  // set by hand: some seconds with 1,024 units

  const DecidedJob& job_;
  const PlanCandidate& from_;
  const PlanScore& score_;
  MovingTimer moving_;
  IterationTimer timer_;
  std::map<std::vector<std::pair<int, int>>, std::vector<double>> lacking_;  // by layers, of each unit
  std::vector<Taken> seats_;
  std::vector<int> seat_of_;  // of each unit
  int priced_ = 0;
};

/// Can the job's schedule run the plan's stages?
bool has_layers_for_chunks(const Plan& plan, const DecidedJob& job) {
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (stage.layers.second - stage.layers.first < job.model.chunks) return false;
  return true;
}

Plan without_site(const Plan& plan, int site, const DecidedJob& job) {
  Plan result = plan;
  std::erase_if(result.pipelines, [&](const Pipeline& pipeline) {
    return std::any_of(pipeline.stages.begin(), pipeline.stages.end(), [&](const Stage& stage) {
      return std::any_of(stage.devices.begin(), stage.devices.end(),
                         [&](int device) { return job.problem.topology.devices[at(device)].site == site; });
    });
  });
  if (!result.pipelines.empty()) deal_evenly(job, result);
  return result;
}

/// Without the pipelines on a site, and on another one, as long as that is better: what a link that has
/// become slow asks for, and no exchange of two units leads to.
Plan narrower(const PlanCandidate& from, const PlanScore& score) {
  const int sites = static_cast<int>(from.job->problem.topology.sites.size());
  PlanCandidate best = from;
  for (std::size_t before = 0; before != best.plan.pipelines.size();) {
    before = best.plan.pipelines.size();
    const Plan now = best.plan;
    for (int site = 0; site < sites; ++site) {
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
  const UnitNumbers numbers(job);
  if (!are_equally_deep(plan)) return false;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (const int unit = numbers.of(stage.devices); unit == nobody || job.units[at(unit)] != stage.devices)
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
        if (device == no_device || !job->model.unknown(device).empty()) return std::nullopt;
    }
  }
  Plan same = plan;
  same.schedule = of.parallelism.schedule;
  same.gradient_sync = of.parallelism.gradient_sync;
  PlanCandidate candidate = priced_plan(job, std::move(same), flush, score);
  if (!std::isfinite(candidate.score)) return std::nullopt;  // a device has no price, which is needed
  return candidate;
}

PlanCandidate settled_plan(const PlanCandidate& candidate, const PlanScore& score) {
  if (candidate.job->has_unlike_degrees()) return candidate;  // its stages may be parts of units
  return priced_plan(candidate.job, Settler(candidate, score).run(), candidate.flush, score);
}

std::vector<PlanCandidate> repaired_plans(const Plan& plan, const std::shared_ptr<const DecidedJob>& job,
                                          const ShapeLimits& limits, const PlanScore& score) {
  if (!are_equally_deep(plan) || job->has_unlike_degrees() ||
      plan.tensor != job->problem.job.parallelism.tensor || !has_layers_for_chunks(plan, *job))
    return {};
  Repair repair(plan, job, score);
  std::vector<PlanCandidate> result;
  const auto offer = [&](const Plan& it) {
    const Shape shape{depth(it), static_cast<int>(it.pipelines.size())};
    if (is_possible(*job, shape, limits)) result.push_back(fitted_plan(job, it, score));
  };
  const Plan filled = repair.filled();
  if (filled.pipelines.empty()) return {};
  offer(filled);
  if (const Plan less = narrower(fitted_plan(job, filled, score), score);
      less.pipelines.size() < filled.pipelines.size())
    offer(less);
  const int spare = static_cast<int>(repair.unused().size()) / depth(filled);
  const int step = std::max(1, (spare + most_wider - 1) / most_wider);
  for (int more = spare; more > 0; more -= step) offer(repair.wider(filled, more));
  std::stable_sort(result.begin(), result.end(), is_better);
  return result;
}

}  // namespace dtfm
