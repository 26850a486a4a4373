#include "planner/search/iteration_time/plan_anneal.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "planner/search/iteration_time/plan_starts.hpp"

namespace dtfm::search {
namespace {

// How much of the score is that of the mean end, which leads where the slowest pipeline alone says nothing.
// This and the shares of the kinds of moves (make_move) are set by hand and not tuned.
constexpr double guidance = 0.05;
constexpr int near = 6;                      // units on either side of a neighbour
constexpr std::size_t most_on_the_way = 16;  // of a front
// Steps of the estimate, of all annealing with 64 units; grows as units^1.25. The wall times of
// planner/search/README.md asked for it.
constexpr double default_effort = 2.5e8;

struct Slot {
  int pipeline = 0, stage = 0;
};

class PlanAnnealer {
 public:
  PlanAnnealer(const PlanCandidate& start, const PlanScore& score, Rng& rng)
      : best_(start),
        score_(score),
        rng_(rng),
        units_(units_beside(*start.job, start.plan)),
        timer_(start.job->model, start.plan),
        front_(most_on_the_way) {
    if (score.moving()) moving_.emplace(*score.moving(), start.job->model.chunks);
    timer_.set_flush(start.flush);
    std::map<int, int> unit_of;  // by its first device
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
      unit_of[units_[unit].front()] = static_cast<int>(unit);
    slot_of_.assign(units_.size(), {-1, -1});
    for (int p = 0; p < pipelines(); ++p) {
      unit_at_.emplace_back();
      for (int s = 0; s < stages(); ++s) {
        const int unit = unit_of.at(plan().pipelines[at(p)].stages[at(s)].devices.front());
        unit_at_.back().push_back(unit);
        slot_of_[at(unit)] = {p, s};
      }
    }
    for (int unit = 0; unit < static_cast<int>(units_.size()); ++unit)
      if (slot_of_[at(unit)].pipeline < 0) unused_.push_back(unit);
    weight_ = score_.total_weight(plan());
    const cost::IterationModel& model = start.job->model;
    least_layers_ = model.chunks;
    batch_step_ = batch_step(*start.job, stages());
    are_degrees_unlike_ = start.job->has_unlike_degrees();
    must_be_alike_ = are_pipelines_alike(*start.job);
    for (const auto& unit : units_)
      if (plan().pipelines.size() <= most_unlike_pipelines && !must_be_alike_)
        are_unlike_ = are_unlike_ || are_degrees_unlike_ ||
                      model.stages.kind_of(unit.front()) != model.stages.kind_of(units_.front().front());
    now_ = energy();
  }

  AnnealedPlan run(const PlanCooling& cooling, const std::function<bool()>& stop) {
    keeps_front_ = cooling.keeps_front;
    const double ratio = cooling.coldest / cooling.hottest;
    const double scale = best_.score > 0 ? best_.score : now_;
    long long move = 0;
    for (; move < cooling.moves && prices_ < cooling.prices; ++move) {
      if (move % moves_between_asking == 0 && stop && stop()) break;
      const double share = static_cast<double>(move) / static_cast<double>(cooling.moves);
      try_move(scale * cooling.hottest * std::pow(ratio, share));
    }
    return {best_, prices_, move == cooling.moves, front_.plans()};
  }

 private:
  const Plan& plan() const { return timer_.plan(); }
  int pipelines() const { return static_cast<int>(plan().pipelines.size()); }
  int stages() const { return static_cast<int>(plan().pipelines.front().stages.size()); }
  int below(int bound) { return static_cast<int>(rng_.below(static_cast<std::uint32_t>(bound))); }
  Slot random_slot() { return {below(pipelines()), below(stages())}; }

  cost::MovingSpend moving() { return moving_ ? moving_->spend(plan()) : cost::MovingSpend(); }

  /// Plans that do not fit cost twice as much, and as much again for every GB that they lack.
  double energy() {
    ++prices_;
    const double seconds = (1 - guidance) * timer_.iteration_s() + guidance * timer_.mean_end_s();
    const double lacking = timer_.lacking_bytes();
    return score_.of(seconds, weight_, timer_.egress_usd(), moving()) * (lacking > 0 ? 2 + lacking / 1e9 : 1);
  }

  void keep_if_best() {
    const double lacking = timer_.lacking_bytes();
    PlanCandidate now{best_.job, {},       timer_.flush(),     timer_.iteration_s(),
                      lacking,   moving(), timer_.egress_usd()};
    now.score = score_.of(now.iteration_s, weight_, now.egress_usd, now.moving);
    if (keeps_front_ && lacking <= 0 && front_.wants(measure_of(now, plan()))) {
      now.plan = plan();
      now.plan.tensor = tensor_degrees(now.plan).back();
      front_.offer(now);
    }
    if (!is_better(now, best_)) return;
    now.plan = plan();
    now.plan.tensor = tensor_degrees(now.plan).back();
    best_ = std::move(now);
  }

  void put(int unit, Slot slot) {
    unit_at_[at(slot.pipeline)][at(slot.stage)] = unit;
    slot_of_[at(unit)] = slot;
    timer_.set_devices(slot.pipeline, slot.stage, units_[at(unit)]);
  }

  void exchange(Slot a, Slot b) {
    if (a.pipeline == b.pipeline && a.stage == b.stage) return;
    const int first = unit_at_[at(a.pipeline)][at(a.stage)], second = unit_at_[at(b.pipeline)][at(b.stage)];
    put(second, a);
    put(first, b);
    undo_.push_back([this, a, b] { exchange(a, b); });
  }

  double weight_of(int unit) const { return score_.total_weight(units_[at(unit)]); }

  /// For the `number`-th unused unit.
  void replace(Slot slot, int number) {
    const int out = unit_at_[at(slot.pipeline)][at(slot.stage)], in = unused_[at(number)];
    if (!std::isfinite(weight_of(in))) return;  // its price is needed and not known
    unused_[at(number)] = out;
    slot_of_[at(out)] = {-1, -1};
    put(in, slot);
    weight_ += weight_of(in) - weight_of(out);
    undo_.push_back([this, slot, number] { replace(slot, number); });
  }

  /// Puts `unit` there, whether it is used or not.
  void bring(int unit, Slot slot) {
    if (slot_of_[at(unit)].pipeline >= 0) return exchange(slot, slot_of_[at(unit)]);
    const auto place = std::find(unused_.begin(), unused_.end(), unit);
    replace(slot, static_cast<int>(place - unused_.begin()));
  }

  /// A unit that is near a neighbour of `slot` comes there.
  void bring_neighbour() {
    const Slot slot = random_slot();
    Slot neighbour = slot;
    if (stages() > 1 && (pipelines() == 1 || below(2) == 0))
      neighbour.stage = slot.stage == 0              ? 1
                        : slot.stage + 1 == stages() ? slot.stage - 1
                                                     : slot.stage + (below(2) == 0 ? 1 : -1);
    else
      neighbour.pipeline = below(pipelines());
    const int unit = unit_at_[at(neighbour.pipeline)][at(neighbour.stage)];
    const int count = static_cast<int>(units_.size());
    const int step = below(2 * near + 1) - near;
    const int other = ((unit + step) % count + count) % count;
    if (other != unit && !units_[at(other)].empty()) bring(other, slot);
  }

  /// Of the devices that two units of one host have together, `slot` gets some and `other`, which is not
  /// used, the rest. A unit without devices is none.
  void recut(Slot slot, int other, const std::vector<int>& of_slot, const std::vector<int>& of_other) {
    if (!std::isfinite(score_.total_weight(of_slot))) return;  // a price is needed and not known
    const int unit = unit_at_[at(slot.pipeline)][at(slot.stage)];
    const std::vector<int> slot_before = units_[at(unit)], other_before = units_[at(other)];
    weight_ -= weight_of(unit);
    units_[at(unit)] = of_slot;
    units_[at(other)] = of_other;
    weight_ += weight_of(unit);
    if (other_before.empty()) unused_.push_back(other);
    if (of_other.empty()) std::erase(unused_, other);
    timer_.set_devices(slot.pipeline, slot.stage, of_slot);
    undo_.push_back(
        [this, slot, other, slot_before, other_before] { recut(slot, other, slot_before, other_before); });
  }

  /// The first half of its devices is left to a stage.
  void cut_stage() {
    const Slot slot = random_slot();
    const std::vector<int> devices = units_[at(unit_at_[at(slot.pipeline)][at(slot.stage)])];
    const std::size_t half = devices.size() / 2;
    if (devices.size() % 2 != 0 || !timer_.model().has_degree(half)) return;
    int other = 0;
    while (at(other) < units_.size() && !units_[at(other)].empty()) ++other;
    if (at(other) == units_.size()) {
      units_.emplace_back();
      slot_of_.push_back({-1, -1});
    }
    const auto middle = devices.begin() + static_cast<long>(half);
    recut(slot, other, {devices.begin(), middle}, {middle, devices.end()});
  }

  /// A stage gets as many devices again, which are not used, from its host.
  void widen_stage() {
    const Slot slot = random_slot();
    std::vector<int> devices = units_[at(unit_at_[at(slot.pipeline)][at(slot.stage)])];
    if (!timer_.model().has_degree(2 * devices.size())) return;
    const auto& all = timer_.model().problem.topology.devices;
    for (const int other : unused_) {
      const std::vector<int>& more = units_[at(other)];
      if (more.size() != devices.size() || all[at(more.front())].host != all[at(devices.front())].host)
        continue;
      devices.insert(devices.end(), more.begin(), more.end());
      return recut(slot, other, devices, {});
    }
  }

  /// Half of a stage's devices goes to another stage of its host that has as many as that half.
  void pass_on_half() {
    cut_stage();
    widen_stage();
  }

  void exchange_rests() {
    const int a = below(pipelines()), b = below(pipelines());
    if (a == b) return;
    for (int stage = below(stages()); stage < stages(); ++stage) exchange({a, stage}, {b, stage});
  }

  void exchange_stages() {
    const int a = below(stages()), b = below(stages());
    if (a == b) return;
    for (int pipeline = 0; pipeline < pipelines(); ++pipeline) exchange({pipeline, a}, {pipeline, b});
  }

  /// A layer from stage `from` to a neighbouring one, if it can spare it.
  bool shift_layer(int pipeline, int from, int to) {
    auto giver = plan().pipelines[at(pipeline)].stages[at(from)].layers;
    auto taker = plan().pipelines[at(pipeline)].stages[at(to)].layers;
    if (giver.second - giver.first <= least_layers_) return false;
    if (from < to) {
      --giver.second;
      --taker.first;
    } else {
      ++giver.first;
      ++taker.second;
    }
    timer_.set_layers(pipeline, from, giver);
    timer_.set_layers(pipeline, to, taker);
    undo_.push_back([this, pipeline, from, to] {
      const int least = std::exchange(least_layers_, 0);
      shift_layer(pipeline, to, from);
      least_layers_ = least;
    });
    return true;
  }

  void shift_layers() {
    if (stages() < 2) return;
    const int boundary = below(stages() - 1);
    const bool forward = below(2) == 0;
    const int from = forward ? boundary : boundary + 1, to = forward ? boundary + 1 : boundary;
    if (are_unlike_ && below(4) == 0) {
      shift_layer(below(pipelines()), from, to);
      return;
    }
    for (int pipeline = 0; pipeline < pipelines(); ++pipeline) shift_layer(pipeline, from, to);
  }

  /// As rare drains as fit now, where some have to be and the job leaves it open.
  void refit_drains() {
    if (timer_.model().flush > 0 || (timer_.flush() == 0 && timer_.lacking_bytes() <= 0)) return;
    int longest = 0;
    for (const Pipeline& pipeline : plan().pipelines) longest = std::max(longest, pipeline.micro_batches);
    const int before = timer_.flush(), fitting = fitting_drain(*best_.job, timer_);
    const int now = fitting < longest ? fitting : 0;
    if (fitting < 1 || now == before) return;
    timer_.set_flush(now);
    undo_.push_back([this, before] { timer_.set_flush(before); });
  }

  void shift_micro_batches(int from, int to, int count) {
    const int giver = plan().pipelines[at(from)].micro_batches,
              taker = plan().pipelines[at(to)].micro_batches;
    if (must_be_alike_ || from == to || giver < count + batch_step_) return;
    timer_.set_micro_batches(from, giver - count);
    timer_.set_micro_batches(to, taker + count);
    undo_.push_back([this, from, to, giver, taker] {
      timer_.set_micro_batches(from, giver);
      timer_.set_micro_batches(to, taker);
    });
  }

  void make_move() {
    if (are_degrees_unlike_ && below(6) == 0) {
      const int kind = below(3);
      return kind == 0 ? cut_stage() : kind == 1 ? widen_stage() : pass_on_half();
    }
    const int kind = below(100);
    if (kind < 30 || (kind < 45 && unused_.empty()))
      exchange(random_slot(), random_slot());
    else if (kind < 45)
      replace(random_slot(), below(static_cast<int>(unused_.size())));
    else if (kind < 70)
      bring_neighbour();
    else if (kind < 78)
      exchange_rests();
    else if (kind < 82)
      exchange_stages();
    else if (kind < 91)
      shift_layers();
    else
      shift_micro_batches(below(pipelines()), below(pipelines()), batch_step_ * (1 + below(3)));
  }

  void try_move(double temperature) {
    undo_.clear();
    make_move();
    if (undo_.empty()) return;
    refit_drains();
    const double energy_then = energy();
    if (energy_then <= now_ || rng_.uniform() < std::exp((now_ - energy_then) / temperature)) {
      now_ = energy_then;
      keep_if_best();
      return;
    }
    auto steps = std::move(undo_);
    undo_.clear();
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) (*step)();
  }

  PlanCandidate best_;
  const PlanScore& score_;
  Rng& rng_;
  std::vector<std::vector<int>> units_;
  cost::IterationTimer timer_;
  std::optional<cost::MovingTimer> moving_;      // where there is a plan to go on from
  std::vector<std::vector<int>> unit_at_;  // [pipeline][stage]
  std::vector<Slot> slot_of_;              // of each unit
  std::vector<int> unused_;
  std::vector<std::function<void()>> undo_;  // the steps of the move, each backwards
  double weight_ = 0;                        // of the devices in use
  double now_ = 0;
  long long prices_ = 0;
  PlanFront front_;
  bool keeps_front_ = false;
  int least_layers_ = 1, batch_step_ = 1;
  bool are_degrees_unlike_ = false, must_be_alike_ = false;
  bool are_unlike_ = false;  // units differ in speed or memory, so that pipelines may differ in their layers
};

/// Steps of the estimate after a move of `candidate`, each some 10 ns (planner/cost/README.md): the pipelines
/// that feel it, by stations or, of other schedules than gpipe, by events of the first micro-batches; and the
/// messages of two exchanges. Where links are shared all pipelines feel it, and messages look at what they
/// pass.
double effort_of_move(const PlanCandidate& candidate) {
  const cost::IterationModel& model = candidate.job->model;
  const auto [stages, replicas] = candidate.shape();
  const bool shared = model.network.shared_count() > 0;
  double of_pipeline = stages;
  if (model.schedule != cost::PipelineSchedule::gpipe) {
    const int batches = candidate.plan.pipelines.front().micro_batches;
    const int played = std::min(batches, model.chunks > 1 ? 5 * stages : 3 * stages + 4);
    of_pipeline = 2.0 * stages * model.chunks * played * (shared ? 4 : 1);
  }
  // Of unlike degrees the parts of all exchanges are put in turn.
  const double parts = candidate.job->has_unlike_degrees() ? 4.0 * model.stages.tensor() * stages : 1;
  return (shared ? replicas : 2) * of_pipeline +
         2.0 * replicas * replicas * model.chunks * parts * (shared ? 3 : 1);
}

}  // namespace

double more_moves(std::size_t units) {
  return std::clamp(64 / static_cast<double>(units), 1.0, 4.0);
}

long long affordable_moves(const PlanCandidate& start, double moves, double parts) {
  constexpr double least = 500;
  const double units = static_cast<double>(start.job->units.size()) / 64;
  const double effort = default_effort * std::max(1.0, std::pow(units, 1.25)) / parts;
  const double wanted = moves * more_moves(start.job->units.size());
  return static_cast<long long>(std::max(least, std::min(wanted, effort / effort_of_move(start))));
}

AnnealedPlan annealed_plan(const PlanCandidate& start, const PlanScore& score, const PlanCooling& cooling,
                           Rng& rng, const std::function<bool()>& stop) {
  return PlanAnnealer(start, score, rng).run(cooling, stop);
}

}  // namespace dtfm::search
