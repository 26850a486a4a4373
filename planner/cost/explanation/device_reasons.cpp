#include "planner/cost/explanation/device_reasons.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm::cost {
namespace {

using StageLimit = StageReason::Limit;

/// Relative differences of iteration times below this are rounding, or the search of warm-ups to 0.1 %.
constexpr double reason_rounding = 1e-3;

/// Insertions are estimated at so many positions at most, spread evenly, to bound the time.
constexpr int max_positions = 64;

struct ChangedPlan {
  double iteration_s = infinity, deficit_bytes = 0;
};

ChangedPlan better_change(const ChangedPlan& a, const ChangedPlan& b) {
  return std::pair(b.deficit_bytes, b.iteration_s) < std::pair(a.deficit_bytes, a.iteration_s) ? b : a;
}

class ReasonSearch {
 public:
  ReasonSearch(const IterationModel& model, const Plan& plan, const StopFunction& stop)
      : model_(model), plan_(without_planned_orders(plan)), stop_(stop), estimator_(model) {
    now_s_ = estimator_.estimate(plan_).iteration_s;  // like changed plans, without an order of its own
    const auto& ends = estimator_.estimate(plan).pipeline_s;
    slowest_ = static_cast<int>(std::max_element(ends.begin(), ends.end()) - ends.begin());
    computing_s_ = computing(plan);
    host_wait_s_ = host_waits(plan);
  }

  DeviceReasons run() {
    DeviceReasons result;
    const Pipeline& pipeline = slowest();
    if (pipeline.micro_batches == 0) return result;
    for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
      result.stages.push_back(reason_of(stage));
      if (!host_wait_s_.empty()) result.stages.back().host_wait_s = host_wait_s_[stage];
    }
    result.idle = idle();
    return result;
  }

 private:
  const Pipeline& slowest() const { return plan_.pipelines[at(slowest_)]; }

  /// Seconds for which each stage of the slowest pipeline computes.
  std::vector<double> computing(const Plan& plan) {
    estimator_.estimate(plan);
    const PipelineWork& work = estimator_.work(slowest_);
    std::vector<double> seconds(plan.pipelines[at(slowest_)].stages.size());
    for (std::size_t i = 0; i < work.forward_s.size(); ++i)
      seconds[i % seconds.size()] += work.micro_batches * (work.forward_s[i] + work.backward_s[i]);
    return seconds;
  }

  /// Seconds of the iteration for which the passes of each stage of the slowest pipeline wait for the host
  /// link; empty if layers are not offloaded.
  std::vector<double> host_waits(const Plan& plan) {
    if (!traits(model_.problem.job.execution.recomputation).offloads) return {};
    estimator_.estimate(plan);
    const PipelineWork& work = estimator_.work(slowest_);
    const Pipeline& pipeline = plan.pipelines[at(slowest_)];
    const auto layers = virtual_stage_layers(pipeline, model_.chunks);
    std::vector<double> seconds(pipeline.stages.size());
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const auto passes_s = [&](int offloaded) {
        const ComputeTime time = slowest_compute(model_, devices_of(pipeline, i), layers[i], offloaded);
        return time.forward_s + time.backward_s;
      };
      seconds[i % seconds.size()] += work.micro_batches * (passes_s(work.recomputed[i]) - passes_s(0));
    }
    return seconds;
  }

  ChangedPlan outcome_of(const Plan& plan) {
    throw_if_stopped(stop_);
    try {
      const IterationEstimate& estimate = estimator_.estimate(plan);
      return {estimate.iteration_s, estimate.deficit_bytes};
    } catch (const Error&) {  // the schedule cannot run it
      return {infinity, infinity};
    }
  }

  /// Changes all pipelines whose stages have the same layers as those of the slowest one.
  template <class ChangeStages>
  Plan changed(const ChangeStages& change) const {
    Plan plan = plan_;
    const auto has_same_layers = [&](const Pipeline& it) {
      return std::equal(it.stages.begin(), it.stages.end(), slowest().stages.begin(), slowest().stages.end(),
                        [](const Stage& a, const Stage& b) { return a.layers == b.layers; });
    };
    std::vector<bool> same;
    for (const Pipeline& it : plan.pipelines) same.push_back(has_same_layers(it));
    for (std::size_t i = 0; i < plan.pipelines.size(); ++i)
      if (same[i]) change(plan.pipelines[i].stages);
    return plan;
  }

  /// The plan in which a stage has one layer more, from the stage before it or after it.
  std::optional<Plan> with_more_layers(std::size_t stage, bool from_before) const {
    const auto& stages = slowest().stages;
    if (from_before ? stage == 0 : stage + 1 == stages.size()) return std::nullopt;
    const auto& given = stages[from_before ? stage - 1 : stage + 1].layers;
    if (given.second - given.first < 2) return std::nullopt;
    return changed([&](std::vector<Stage>& all) {
      if (from_before)
        all[stage - 1].layers.second = --all[stage].layers.first;
      else
        all[stage + 1].layers.first = ++all[stage].layers.second;
    });
  }

  /// The plan without a stage, whose layers the stage before it or after it has.
  std::optional<Plan> without(std::size_t stage, bool to_before) const {
    const auto& stages = slowest().stages;
    if (to_before ? stage == 0 : stage + 1 == stages.size()) return std::nullopt;
    return changed([&](std::vector<Stage>& all) {
      if (to_before)
        all[stage - 1].layers.second = all[stage].layers.second;
      else
        all[stage + 1].layers.first = all[stage].layers.first;
      all.erase(all.begin() + static_cast<std::ptrdiff_t>(stage));
    });
  }

  StageReason reason_of(std::size_t stage) {
    StageReason reason;
    const Stage& own = slowest().stages[stage];
    reason.pipeline = slowest_;
    reason.stage = static_cast<int>(stage);
    reason.layers = 0;
    const auto layers = layers_by_stage(slowest(), model_.chunks);
    for (const auto& [first, last] : layers[stage]) reason.layers += last - first;
    const double busiest_s = *std::max_element(computing_s_.begin(), computing_s_.end());
    if (now_s_ > 0) reason.busy_share = computing_s_[stage] / now_s_;
    if (slowest().stages.size() < 2 || model_.chunks > 1 || model_.sharding.gradients) return reason;
    ChangedPlan more{infinity, infinity}, fewer{infinity, infinity};
    std::optional<Plan> best_more, best_fewer;
    for (const bool before : {true, false}) {
      const auto consider = [&](std::optional<Plan> plan, ChangedPlan& best, std::optional<Plan>& best_plan) {
        if (!plan) return;
        const ChangedPlan outcome = better_change(best, outcome_of(*plan));
        if (outcome.iteration_s == best.iteration_s && outcome.deficit_bytes == best.deficit_bytes) return;
        best = outcome;
        best_plan = std::move(plan);
      };
      consider(with_more_layers(stage, before), more, best_more);
      consider(without(stage, before), fewer, best_fewer);
    }
    if (best_fewer && fewer.deficit_bytes <= 0 && fewer.iteration_s < infinity) {
      reason.without_s = fewer.iteration_s;
      const std::vector<double> seconds = computing(*best_fewer);
      reason.shortens_round_trip = traits(model_.schedule).alternates &&
                                   fewer.iteration_s > now_s_ * (1 + reason_rounding) &&
                                   *std::max_element(seconds.begin(), seconds.end()) <= now_s_;
    }
    if (best_more && more.deficit_bytes <= 0 && more.iteration_s < infinity) reason.more_s = more.iteration_s;
    if (computing_s_[stage] >= busiest_s * (1 - reason_rounding))
      reason.limit = StageLimit::busiest;
    else if (!best_more || more.iteration_s == infinity)
      reason.limit = StageLimit::unknown;
    else if (more.deficit_bytes > 0) {
      reason.limit = StageLimit::memory;
      reason.deficit_bytes = more.deficit_bytes / static_cast<double>(own.devices.size());
    } else if (more.iteration_s < now_s_ * (1 - reason_rounding)) {
      reason.limit = StageLimit::none;
    } else {
      const std::vector<double> seconds = computing(*best_more);
      reason.limit =
          seconds[stage] >= *std::max_element(seconds.begin(), seconds.end()) * (1 - reason_rounding)
              ? StageLimit::compute
              : StageLimit::messages;
    }
    return reason;
  }

  /// The slowest pipeline with one more stage, before stage `position`, which has a layer of the larger
  /// neighbour.
  std::optional<Plan> inserted(std::size_t position, const std::vector<int>& devices) const {
    Plan plan = plan_;
    std::vector<Stage>& stages = plan.pipelines[at(slowest_)].stages;
    const auto layers = [&](std::size_t stage) {
      return stage < stages.size() ? stages[stage].layers.second - stages[stage].layers.first : 0;
    };
    const bool from_before = position > 0 && layers(position - 1) >= layers(position);
    const std::size_t giver = from_before ? position - 1 : position;
    if (layers(giver) < 2) return std::nullopt;
    int layer = 0;
    if (from_before)
      layer = --stages[giver].layers.second;
    else
      layer = stages[giver].layers.first++;
    stages.insert(stages.begin() + static_cast<std::ptrdiff_t>(position), Stage{{layer, layer + 1}, devices});
    return plan;
  }

  void try_insertions(IdleReason& reason) {
    const Topology& topology = model_.problem.topology;
    const std::size_t degree = at(model_.by_degree.front().devices());
    std::map<int, std::vector<int>> by_host;
    std::vector<int> group;
    for (const int device : reason.devices) {
      std::vector<int>& its = by_host[topology.devices[at(device)].host];
      its.push_back(device);
      if (its.size() == degree) {
        group = its;
        break;
      }
    }
    if (group.empty() || model_.chunks > 1 || model_.sharding.gradients ||
        model_.problem.job.parallelism.uniform_pipelines)
      return;
    ChangedPlan best{infinity, infinity};
    const int positions = static_cast<int>(slowest().stages.size()) + 1,
              tried = std::min(positions, max_positions);
    for (int i = 0; i < tried; ++i)
      if (const auto plan = inserted(at(i * positions / tried), group))
        best = better_change(best, outcome_of(*plan));
    if (best.iteration_s == infinity) return;
    reason.deficit_bytes = best.deficit_bytes;
    if (best.deficit_bytes <= 0) reason.with_s = best.iteration_s;
  }

  std::vector<IdleReason> idle() {
    const Topology& topology = model_.problem.topology;
    std::vector<bool> used(topology.devices.size());
    for (const int device : pipeline_major(plan_)) used[at(device)] = true;
    std::map<std::tuple<int, int, double>, std::size_t> known;
    std::vector<IdleReason> result;
    for (int device = 0; device < topology.size(); ++device) {
      if (used[at(device)]) continue;
      const Device& it = topology.devices[at(device)];
      const auto [position, is_new] = known.emplace(std::tuple(it.site, it.gpu, it.speed), result.size());
      if (is_new) result.push_back({{}, model_.unknown(device), 0, 0});
      result[position->second].devices.push_back(device);
    }
    for (IdleReason& it : result)
      if (it.unknown.empty()) try_insertions(it);
    return result;
  }

  const IterationModel& model_;
  Plan plan_;
  const StopFunction& stop_;
  IterationEstimator estimator_;
  double now_s_ = 0;
  int slowest_ = 0;
  std::vector<double> computing_s_, host_wait_s_;  // by stage of the slowest pipeline
};

}  // namespace

DeviceReasons device_reasons(const IterationModel& model, const Plan& plan, const StopFunction& stop) {
  return ReasonSearch(model, plan, stop).run();
}

}  // namespace dtfm::cost
