#include "planner/search/iteration_time/plan_anneal.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/target.hpp"
#include "planner/search/iteration_time/initial_plans.hpp"
#include "planner/search/iteration_time/random_change.hpp"

namespace dtfm::search {
namespace {

// Share of the mean end in the energy, which guides moves that do not affect the slowest pipeline. Chosen by
// hand, not tuned.
constexpr double guidance = 0.05;
constexpr int near = 6;       // tensor-parallel groups on either side of a neighbour
constexpr int max_tries = 4;  // for a move that changes something
constexpr std::size_t max_pareto_front_size_per_run = 16;
// Limit on the expected steps of all estimates of a search's annealing. Chosen for the times in
// docs/validation.md.
constexpr double max_steps = 7e8;

struct Slot {
  int pipeline = 0, stage = 0;
};

class PlanAnnealer {
 public:
  PlanAnnealer(const PlanCandidate& start, const PlanScore& score, Rng& rng)
      : best_(start),
        score_(score),
        rng_(rng),
        tensor_groups_(tensor_groups_for_plan(*start.job, start.plan)),
        estimator_(start.job->model),
        plan_(start.plan),
        pareto_front_(max_pareto_front_size_per_run) {
    if (score.migration()) migration_.emplace(*score.migration(), start.job->model.chunks);
    std::map<int, int> tensor_group_of;  // by its first device
    for (std::size_t tensor_group = 0; tensor_group < tensor_groups_.size(); ++tensor_group)
      tensor_group_of[tensor_groups_[tensor_group].front()] = static_cast<int>(tensor_group);
    slot_of_.assign(tensor_groups_.size(), {-1, -1});
    for (int p = 0; p < pipelines(); ++p) {
      tensor_group_at_.emplace_back();
      for (int s = 0; s < stages(); ++s) {
        const int tensor_group = tensor_group_of.at(plan().pipelines[at(p)].stages[at(s)].devices.front());
        tensor_group_at_.back().push_back(tensor_group);
        slot_of_[at(tensor_group)] = {p, s};
      }
    }
    for (int tensor_group = 0; tensor_group < static_cast<int>(tensor_groups_.size()); ++tensor_group)
      if (slot_of_[at(tensor_group)].pipeline < 0) unused_.push_back(tensor_group);
    weight_ = score_.total_weight(plan());
    if (!migration_ && !start.job->has_mixed_degrees())
      class_of_ = interchangeable_classes(tensor_groups_, *start.job, score_);
    const cost::IterationModel& model = start.job->model;
    min_layers_ = model.chunks;
    batch_step_ = batch_step(*start.job, stages());
    has_mixed_degrees_ = start.job->has_mixed_degrees();
    requires_uniform_ = requires_uniform_pipelines(*start.job);
    for (const auto& tensor_group : tensor_groups_)
      if (plan().pipelines.size() <= max_heterogeneous_pipelines && !requires_uniform_)
        are_pipelines_heterogeneous_ = are_pipelines_heterogeneous_ || has_mixed_degrees_ ||
                                       model.stages.kind_of(tensor_group.front()) !=
                                           model.stages.kind_of(tensor_groups_.front().front());
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
  const Plan& plan() const { return plan_; }
  const cost::IterationModel& model() const { return best_.job->model; }
  Stage& stage_at(Slot slot) { return plan_.pipelines[at(slot.pipeline)].stages[at(slot.stage)]; }
  int pipelines() const { return static_cast<int>(plan().pipelines.size()); }
  int stages() const { return static_cast<int>(plan().pipelines.front().stages.size()); }
  int below(int bound) { return static_cast<int>(rng_.below(static_cast<std::uint32_t>(bound))); }
  Slot random_slot() { return {below(pipelines()), below(stages())}; }

  cost::MigrationEstimate migration() {
    return migration_ ? migration_->estimate(plan()) : cost::MigrationEstimate();
  }

  /// The energy, or nothing if it exceeds the limit; then the estimate is usually pruned.
  std::optional<double> energy_up_to(double max_energy) {
    score_.throw_if_stopped();
    ++evaluations_;
    const cost::MigrationEstimate of_migration = migration();
    const auto energy = [&](const auto& it) {
      const double seconds = (1 - guidance) * it.iteration_s + guidance * it.mean_end_s;
      return energy_of(score_.of(seconds, weight_, it.egress_usd, of_migration), it.deficit_bytes);
    };
    estimate_ = estimator_.estimate_or_prune(
        plan_, [&](const cost::EstimateBounds& bounds) { return energy(bounds) > max_energy; });
    return estimate_ ? std::optional(energy(*estimate_)) : std::nullopt;
  }

  void keep_if_best() {
    const double deficit_bytes = estimate_->deficit_bytes;
    PlanCandidate now{best_.job,     {},          estimate_->iteration_s,
                      deficit_bytes, migration(), estimate_->egress_usd};
    now.score = score_.of(now.iteration_s, weight_, now.egress_usd, now.migration);
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

  void put(int tensor_group, Slot slot) {
    tensor_group_at_[at(slot.pipeline)][at(slot.stage)] = tensor_group;
    slot_of_[at(tensor_group)] = slot;
    stage_at(slot).devices = tensor_groups_[at(tensor_group)];
  }

  void swap_slots(Slot a, Slot b) {
    if (a.pipeline == b.pipeline && a.stage == b.stage) return;
    const int first = tensor_group_at_[at(a.pipeline)][at(a.stage)],
              second = tensor_group_at_[at(b.pipeline)][at(b.stage)];
    if (are_interchangeable(first, second)) return;
    put(second, a);
    put(first, b);
    undo_.push_back([this, a, b] { swap_slots(a, b); });
  }

  bool are_interchangeable(int tensor_group, int other) const {
    return !class_of_.empty() && class_of_[at(tensor_group)] == class_of_[at(other)];
  }

  double weight_of(int tensor_group) const { return score_.total_weight(tensor_groups_[at(tensor_group)]); }

  /// Replaces the group in the slot by the `number`-th unused one.
  void replace(Slot slot, int number) {
    const int out = tensor_group_at_[at(slot.pipeline)][at(slot.stage)], in = unused_[at(number)];
    // Its price is needed but unknown, or nothing would change.
    if (!std::isfinite(weight_of(in)) || are_interchangeable(in, out)) return;
    unused_[at(number)] = out;
    slot_of_[at(out)] = {-1, -1};
    put(in, slot);
    weight_ += weight_of(in) - weight_of(out);
    undo_.push_back([this, slot, number] { replace(slot, number); });
  }

  /// Assigns a group, used or unused, to the slot.
  void place_group(int tensor_group, Slot slot) {
    if (slot_of_[at(tensor_group)].pipeline >= 0) return swap_slots(slot, slot_of_[at(tensor_group)]);
    const auto position = std::find(unused_.begin(), unused_.end(), tensor_group);
    replace(slot, static_cast<int>(position - unused_.begin()));
  }

  /// Assigns a group to a random slot that is close to the group of a neighbouring slot.
  void place_near_neighbour() {
    const Slot slot = random_slot();
    Slot neighbour = slot;
    if (stages() > 1 && (pipelines() == 1 || below(2) == 0))
      neighbour.stage = slot.stage == 0              ? 1
                        : slot.stage + 1 == stages() ? slot.stage - 1
                                                     : slot.stage + (below(2) == 0 ? 1 : -1);
    else
      neighbour.pipeline = below(pipelines());
    const int tensor_group = tensor_group_at_[at(neighbour.pipeline)][at(neighbour.stage)];
    const int count = static_cast<int>(tensor_groups_.size());
    const int step = below(2 * near + 1) - near;
    const int other = ((tensor_group + step) % count + count) % count;
    if (other != tensor_group && !tensor_groups_[at(other)].empty()) place_group(other, slot);
  }

  /// Redistributes the devices of two groups of one host: the group in `slot` gets `of_slot`, and the unused
  /// group `other` gets `of_other`. A group without devices does not count.
  void redistribute_host(Slot slot, int other, const std::vector<int>& of_slot,
                         const std::vector<int>& of_other) {
    if (!std::isfinite(score_.total_weight(of_slot))) return;  // a price is needed but unknown
    const int tensor_group = tensor_group_at_[at(slot.pipeline)][at(slot.stage)];
    const std::vector<int> slot_before = tensor_groups_[at(tensor_group)],
                           other_before = tensor_groups_[at(other)];
    weight_ -= weight_of(tensor_group);
    tensor_groups_[at(tensor_group)] = of_slot;
    tensor_groups_[at(other)] = of_other;
    weight_ += weight_of(tensor_group);
    if (other_before.empty()) unused_.push_back(other);
    if (of_other.empty()) std::erase(unused_, other);
    stage_at(slot).devices = of_slot;
    undo_.push_back([this, slot, other, slot_before, other_before] {
      redistribute_host(slot, other, slot_before, other_before);
    });
  }

  /// Leaves a stage the first half of its devices.
  void halve_stage() {
    const Slot slot = random_slot();
    const std::vector<int> devices = tensor_groups_[at(tensor_group_at_[at(slot.pipeline)][at(slot.stage)])];
    const std::size_t half = devices.size() / 2;
    if (devices.size() % 2 != 0 || !model().has_degree(half)) return;
    int other = 0;
    while (at(other) < tensor_groups_.size() && !tensor_groups_[at(other)].empty()) ++other;
    if (at(other) == tensor_groups_.size()) {
      tensor_groups_.emplace_back();
      slot_of_.push_back({-1, -1});
    }
    const auto middle = devices.begin() + static_cast<long>(half);
    redistribute_host(slot, other, {devices.begin(), middle}, {middle, devices.end()});
  }

  /// Gives a stage as many unused devices of its host as it already has.
  void double_stage() {
    const Slot slot = random_slot();
    std::vector<int> devices = tensor_groups_[at(tensor_group_at_[at(slot.pipeline)][at(slot.stage)])];
    if (!model().has_degree(2 * devices.size())) return;
    const auto& all = model().problem.topology->devices;
    for (const int other : unused_) {
      const std::vector<int>& more = tensor_groups_[at(other)];
      if (more.size() != devices.size() || all[at(more.front())].host != all[at(devices.front())].host)
        continue;
      devices.insert(devices.end(), more.begin(), more.end());
      return redistribute_host(slot, other, devices, {});
    }
  }

  /// Moves half of a stage's devices to a stage of the same host that has as many as that half.
  void move_half_stage() {
    halve_stage();
    double_stage();
  }

  void swap_pipeline_tails() {
    const int a = below(pipelines()), b = below(pipelines());
    if (a == b) return;
    for (int stage = below(stages()); stage < stages(); ++stage) swap_slots({a, stage}, {b, stage});
  }

  void swap_stages() {
    const int a = below(stages()), b = below(stages());
    if (a == b) return;
    for (int pipeline = 0; pipeline < pipelines(); ++pipeline) swap_slots({pipeline, a}, {pipeline, b});
  }

  /// Moves a layer from stage `from` to a neighbouring one. Returns false if it has none to spare.
  bool shift_layer(int pipeline, int from, int to) {
    auto giver = plan().pipelines[at(pipeline)].stages[at(from)].layers;
    auto taker = plan().pipelines[at(pipeline)].stages[at(to)].layers;
    if (giver.second - giver.first <= min_layers_) return false;
    if (from < to) {
      --giver.second;
      --taker.first;
    } else {
      ++giver.first;
      ++taker.second;
    }
    stage_at({pipeline, from}).layers = giver;
    stage_at({pipeline, to}).layers = taker;
    undo_.push_back([this, pipeline, from, to] {
      const int least = std::exchange(min_layers_, 0);
      shift_layer(pipeline, to, from);
      min_layers_ = least;
    });
    return true;
  }

  void shift_layers() {
    if (stages() < 2 || requires_equal_stages(best_.job->problem.job)) return;
    const int boundary = below(stages() - 1);
    const bool forward = below(2) == 0;
    const int from = forward ? boundary : boundary + 1, to = forward ? boundary + 1 : boundary;
    if (are_pipelines_heterogeneous_ && below(4) == 0) {
      shift_layer(below(pipelines()), from, to);
      return;
    }
    for (int pipeline = 0; pipeline < pipelines(); ++pipeline) shift_layer(pipeline, from, to);
  }

  /// Makes flushes as rare as memory allows, if some are needed and the job does not fix their interval.
  void refit_flush() {
    if (model().flush > 0 || !traits(model().schedule).forwards_first) return;
    if (!plan_.execution.flush && estimator_.deficit_bytes(plan_) <= 0) return;
    int longest = 0;
    for (const Pipeline& pipeline : plan().pipelines) longest = std::max(longest, pipeline.micro_batches);
    const std::optional<int> before = plan_.execution.flush;
    const int fitting = fit_flush_interval(*best_.job, plan_);
    if (fitting < 1) return;
    plan_.execution.flush = fitting < longest ? std::optional(fitting) : std::nullopt;
    undo_.push_back([this, before] { plan_.execution.flush = before; });
  }

  void shift_micro_batches(int from, int to, int count) {
    const int giver = plan().pipelines[at(from)].micro_batches,
              taker = plan().pipelines[at(to)].micro_batches;
    if (requires_uniform_ || from == to || giver < count + batch_step_) return;
    plan_.pipelines[at(from)].micro_batches = giver - count;
    plan_.pipelines[at(to)].micro_batches = taker + count;
    undo_.push_back([this, from, to, giver, taker] {
      plan_.pipelines[at(from)].micro_batches = giver;
      plan_.pipelines[at(to)].micro_batches = taker;
    });
  }

  void swap_random() {
    const Slot a = random_slot(), b = random_slot();
    swap_slots(a, b);
  }

  void replace_random() {
    if (unused_.empty()) return swap_random();
    replace(random_slot(), below(static_cast<int>(unused_.size())));
  }

  void shift_random_micro_batches() {
    const int from = below(pipelines()), to = below(pipelines());
    shift_micro_batches(from, to, batch_step_ * (1 + below(3)));
  }

  struct Move {
    int odds;
    void (PlanAnnealer::*make)();
    ChangeRequires required;
  };
  static const std::array<Move, 10> moves;

  void try_move(double temperature) {
    undo_.clear();
    for (int i = 0; i < max_tries && undo_.empty(); ++i)
      (this->*random_change(moves, {false, has_mixed_degrees_}, rng_).make)();
    if (undo_.empty()) return;
    refit_flush();
    if (const std::optional<double> new_energy = energy_up_to(acceptance_limit(now_, temperature, rng_))) {
      now_ = *new_energy;
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
  std::vector<std::vector<int>> tensor_groups_;
  cost::IterationEstimator estimator_;
  Plan plan_;
  const cost::IterationEstimate* estimate_ = nullptr;  // of the last evaluation; null if it was pruned
  std::optional<cost::MigrationTimer> migration_;      // set in a warm start
  std::vector<std::vector<int>> tensor_group_at_;      // [pipeline][stage]
  std::vector<Slot> slot_of_;                          // by tensor-parallel group
  // By tensor-parallel group: interchangeable_classes. Empty in a warm start or with mixed degrees.
  std::vector<int> class_of_;
  std::vector<int> unused_;
  std::vector<std::function<void()>> undo_;  // undoes the steps of the current move
  double weight_ = 0;                        // of the devices in use
  double now_ = 0;
  long long evaluations_ = 0;
  ParetoFront pareto_front_;
  bool keeps_pareto_front_ = false;
  int min_layers_ = 1, batch_step_ = 1;
  bool has_mixed_degrees_ = false, requires_uniform_ = false;
  // Groups differ in speed or memory, so pipelines may differ in their layers.
  bool are_pipelines_heterogeneous_ = false;
};

// Chosen by hand, not tuned. docs/how-it-works.md has the same odds.
constexpr std::array<PlanAnnealer::Move, 10> PlanAnnealer::moves = {{
    {30, &PlanAnnealer::swap_random, ChangeRequires::nothing},
    {15, &PlanAnnealer::replace_random, ChangeRequires::nothing},
    {25, &PlanAnnealer::place_near_neighbour, ChangeRequires::nothing},
    {8, &PlanAnnealer::swap_pipeline_tails, ChangeRequires::nothing},
    {4, &PlanAnnealer::swap_stages, ChangeRequires::nothing},
    {9, &PlanAnnealer::shift_layers, ChangeRequires::nothing},
    {9, &PlanAnnealer::shift_random_micro_batches, ChangeRequires::nothing},
    {7, &PlanAnnealer::halve_stage, ChangeRequires::mixed_degrees},
    {7, &PlanAnnealer::double_stage, ChangeRequires::mixed_degrees},
    {7, &PlanAnnealer::move_half_stage, ChangeRequires::mixed_degrees},
}};

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
  if (schedule.alternates && !schedule.is_blocking && !shared)
    of_pipeline = 2.0 * stages * std::min(batches, 3 * stages + 4);
  else if (!schedule.forwards_first)
    of_pipeline =
        8.0 * (schedule.splits_backward ? 3 : 2) * stages * model.chunks * std::min(batches, 6 * stages);
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

std::vector<int> interchangeable_classes(const std::vector<std::vector<int>>& groups, const DecidedJob& job,
                                         const PlanScore& score) {
  const auto& devices = job.problem.topology->devices;
  std::map<int, int> host_sizes;
  for (const Device& it : devices) ++host_sizes[it.host];
  using Key = std::tuple<int, std::vector<cost::DeviceClass>, double>;  // host or no_index, classes, weight
  std::map<Key, int> numbers;
  std::vector<int> classes;
  for (const std::vector<int>& group : groups) {
    const int host = devices[at(group.front())].host;
    bool is_whole_host = host_sizes[host] == static_cast<int>(group.size());
    std::vector<cost::DeviceClass> of_devices;
    for (const int device : group) {
      is_whole_host = is_whole_host && devices[at(device)].host == host;
      of_devices.push_back(job.model.class_of(device));
    }
    const Key key{is_whole_host ? no_index : host, std::move(of_devices), score.total_weight(group)};
    classes.push_back(numbers.try_emplace(key, static_cast<int>(numbers.size())).first->second);
  }
  return classes;
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
