#include "planner/search/iteration_time/warm_start.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/target.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/search/iteration_time/fit_plan.hpp"
#include "planner/search/iteration_time/tensor_group_slots.hpp"

namespace dtfm::search {
namespace {

// Chosen by hand: repairs are only initial solutions for annealing, which tries the rest.
constexpr std::size_t max_tried_groups = 64;  // unused groups per slot
constexpr int max_added_pipelines = 8;        // different numbers of added pipelines

struct PlanSlot {
  std::size_t pipeline = 0, stage = 0;
};

/// Clears the devices of stages that have a missing or unusable device, or whose number of devices is no
/// degree of the job. Without mixed degrees, also of stages that are not one of the job's groups.
Plan intact_stages(Plan plan, const DecidedJob& job) {
  const TensorGroupIndex numbers(job.tensor_groups);
  std::set<int> usable;
  for (const auto& tensor_group : job.tensor_groups) usable.insert(tensor_group.begin(), tensor_group.end());
  const auto is_intact = [&](const std::vector<int>& devices) {
    if (!job.has_mixed_degrees()) return numbers.of(devices) != no_tensor_group;
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
         const StopFunction& stop)
      : job_(job),
        score_(score),
        stop_(stop),
        plan_(intact_stages(plan, *job)),
        tensor_groups_(tensor_groups_for_plan(*job, plan_)),
        numbers_(tensor_groups_),
        missing_bytes_(tensor_groups_, score.migration()),
        is_used_(tensor_groups_.size()) {
    plan_.execution = job->problem.job.execution;
    for (Pipeline& pipeline : plan_.pipelines)
      for (Stage& stage : pipeline.stages)
        if (!stage.devices.empty()) assign(stage, numbers_.of(stage.devices));
  }

  /// The plan with all slots assigned; without any pipeline if there are not enough groups for one.
  Plan complete_plan() {
    drop_incomplete_pipelines();
    if (plan_.pipelines.empty()) return plan_;
    const std::vector<PlanSlot> slots = assign_empty_slots();
    const int step = batch_step(*job_, depth(plan_));
    const bool is_whole = std::all_of(plan_.pipelines.begin(), plan_.pipelines.end(),
                                      [&](const Pipeline& it) { return it.micro_batches % step == 0; });
    if (!is_whole || total_micro_batches(plan_) != micro_batch_count(job_->problem.job))
      assign_micro_batches_evenly(*job_, plan_);
    if (!slots.empty()) find_best(slots);
    plan_.tensor = tensor_degrees(plan_).back();
    return plan_;
  }

  /// Adds `count` pipelines like the first one, on unused groups in nearness order.
  Plan with_added_pipelines(const Plan& plan, int count) const {
    Plan result = plan;
    std::vector<int> tensor_groups = unused();
    std::size_t next = 0;
    for (int i = 0; i < count; ++i) {
      result.pipelines.push_back(plan.pipelines.front());
      for (Stage& stage : result.pipelines.back().stages)
        stage.devices = tensor_groups_[at(tensor_groups[next++])];
    }
    assign_micro_batches_evenly(*job_, result);
    result.tensor = tensor_degrees(result).back();
    return result;
  }

  std::vector<int> unused() const {
    std::vector<int> tensor_groups;
    for (std::size_t tensor_group = 0; tensor_group < is_used_.size(); ++tensor_group)
      if (!is_used_[tensor_group]) tensor_groups.push_back(static_cast<int>(tensor_group));
    return tensor_groups;
  }

 private:
  static int empty_slots(const Pipeline& pipeline) {
    return static_cast<int>(std::count_if(pipeline.stages.begin(), pipeline.stages.end(),
                                          [](const Stage& it) { return it.devices.empty(); }));
  }

  void drop_incomplete_pipelines() {
    while (true) {
      int missing = 0;
      auto worst = plan_.pipelines.end();
      for (auto it = plan_.pipelines.begin(); it != plan_.pipelines.end(); ++it) {
        const int empty = empty_slots(*it);
        missing += empty;
        if (empty > 0 && (worst == plan_.pipelines.end() || empty >= empty_slots(*worst))) worst = it;
      }
      if (missing <= static_cast<int>(unused().size())) return;
      for (const Stage& stage : worst->stages)
        if (!stage.devices.empty()) is_used_[at(numbers_.of(stage.devices))] = false;
      plan_.pipelines.erase(worst);
    }
  }

  void assign(Stage& stage, int tensor_group) {
    stage.devices = tensor_groups_[at(tensor_group)];
    is_used_[at(tensor_group)] = true;
  }

  /// Unused groups, those that must fetch least for the slot first.
  std::vector<int> tensor_groups_for(const PlanSlot& slot) {
    const auto layers = layers_by_stage(plan_.pipelines[slot.pipeline], job_->model.chunks);
    const std::vector<double>& missing = missing_bytes_.of(layers[slot.stage]);
    std::vector<int> tensor_groups = unused();
    std::stable_sort(tensor_groups.begin(), tensor_groups.end(),
                     [&](int a, int b) { return missing[at(a)] < missing[at(b)]; });
    return tensor_groups;
  }

  /// Assigns groups to all empty slots, and returns these slots.
  std::vector<PlanSlot> assign_empty_slots() {
    std::vector<PlanSlot> slots;
    for (std::size_t p = 0; p < plan_.pipelines.size(); ++p)
      for (std::size_t s = 0; s < plan_.pipelines[p].stages.size(); ++s)
        if (Stage& stage = plan_.pipelines[p].stages[s]; stage.devices.empty()) {
          slots.push_back({p, s});
          assign(stage, tensor_groups_for(slots.back()).front());
        }
    return slots;
  }

  bool must_stop() const { return evaluations_ >= max_evaluations || is_stopped(stop_); }

  void find_best(const std::vector<PlanSlot>& slots) {
    PlanEvaluator evaluator(job_, score_);
    Plan plan = plan_;
    // Otherwise no group would fit.
    if (job_->model.flush == 0 && may_flush(job_->problem.job) && evaluator.deficit_bytes(plan) > 0)
      if (const int flush = cost::max_fitting_flush(job_->model, plan); flush > 0)
        plan.execution.flush = flush;
    const auto evaluate = [&] {
      ++evaluations_;
      return evaluator.evaluate(plan);
    };
    PlanCandidate best = evaluate();
    for (const auto& [pipeline, stage] : slots) {
      std::vector<int> tensor_groups = tensor_groups_for({pipeline, stage});
      if (tensor_groups.size() > max_tried_groups) tensor_groups.resize(max_tried_groups);
      Stage& tried = plan.pipelines[pipeline].stages[stage];
      Stage& taken = plan_.pipelines[pipeline].stages[stage];
      int chosen = numbers_.of(taken.devices);
      is_used_[at(chosen)] = false;
      for (const int tensor_group : tensor_groups) {
        if (must_stop()) break;
        tried.devices = tensor_groups_[at(tensor_group)];
        const PlanCandidate other = evaluate();
        if (!is_better(other, best)) continue;
        best = other;
        chosen = tensor_group;
      }
      assign(taken, chosen);
      tried.devices = tensor_groups_[at(chosen)];
    }
  }

  const std::shared_ptr<const DecidedJob>& job_;
  const PlanScore& score_;
  const StopFunction& stop_;
  Plan plan_;
  std::vector<std::vector<int>> tensor_groups_;
  TensorGroupIndex numbers_;
  MissingBytes missing_bytes_;
  std::vector<bool> is_used_;  // by tensor-parallel group
  long long evaluations_ = 0;
};

/// Whether every stage that is split evenly has a layer for each of its chunks.
bool has_layers_for_chunks(const Plan& plan, const DecidedJob& job) {
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (stage.virtual_layers.empty() && stage.layers.second - stage.layers.first < job.model.chunks)
        return false;
  return true;
}

/// Whether any stage can stay.
bool has_intact_stage(const Plan& plan, const DecidedJob& job) {
  return !pipeline_major(intact_stages(plan, job)).empty();
}

Plan without_site(const Plan& plan, int site, const DecidedJob& job) {
  Plan result = plan;
  std::erase_if(result.pipelines, [&](const Pipeline& pipeline) {
    return std::any_of(pipeline.stages.begin(), pipeline.stages.end(), [&](const Stage& stage) {
      return std::any_of(stage.devices.begin(), stage.devices.end(),
                         [&](int device) { return job.problem.topology->devices[at(device)].site == site; });
    });
  });
  if (result.pipelines.empty()) return result;
  assign_micro_batches_evenly(job, result);
  result.tensor = tensor_degrees(result).back();
  return result;
}

/// Drops the pipelines on a site, then on another one, as long as that is better. This helps if a link has
/// become slow, where no swap of two groups does.
Plan drop_slow_sites(const PlanCandidate& from, const PlanScore& score, const StopFunction& stop) {
  const int sites = static_cast<int>(from.job->problem.topology->sites.size());
  PlanCandidate best = from;
  for (std::size_t before = 0; before != best.plan.pipelines.size();) {
    before = best.plan.pipelines.size();
    const Plan now = best.plan;
    for (int site = 0; site < sites; ++site) {
      if (is_stopped(stop)) return best.plan;
      Plan other = without_site(now, site, *from.job);
      if (other.pipelines.empty() || other.pipelines.size() == now.pipelines.size()) continue;
      PlanCandidate candidate = evaluate_plan(from.job, std::move(other), score);
      if (is_better(candidate, best)) best = std::move(candidate);
    }
  }
  return best.plan;
}

}  // namespace

bool uses_tensor_groups(const Plan& plan, const DecidedJob& job) {
  if (!are_equally_deep(plan)) return false;
  const auto tensor_groups = tensor_groups_for_plan(job, plan);
  const TensorGroupIndex numbers(tensor_groups);
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (const int tensor_group = numbers.of(stage.devices);
          tensor_group == no_tensor_group || tensor_groups[at(tensor_group)] != stage.devices)
        return false;
  return true;
}

std::optional<PlanCandidate> unchanged_plan(const Plan& plan, const std::shared_ptr<const DecidedJob>& job,
                                            const ShapeLimits& limits, const PlanScore& score) {
  const Job& of = job->problem.job;
  const int replicas = static_cast<int>(plan.pipelines.size());
  if (limits.stages.value_or(depth(plan)) != depth(plan) || limits.replicas.value_or(replicas) != replicas)
    return std::nullopt;
  if (total_micro_batches(plan) != micro_batch_count(of) || !has_layers_for_chunks(plan, *job))
    return std::nullopt;
  const int step = batch_step(*job, depth(plan));
  const int flush = of.execution.flush ? 0 : plan.execution.flush.value_or(0);
  if (flush % step != 0 && flush < total_micro_batches(plan)) return std::nullopt;
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
  same.execution = of.execution;
  if (!same.execution.flush) same.execution.flush = plan.execution.flush;
  PlanCandidate candidate = evaluate_plan(job, std::move(same), score);
  if (!std::isfinite(candidate.score)) return std::nullopt;  // a price is needed but unknown
  return candidate;
}

std::vector<PlanCandidate> repaired_plans(const Plan& plan, const std::shared_ptr<const DecidedJob>& job,
                                          const ShapeLimits& limits, const PlanScore& score,
                                          const StopFunction& stop) {
  std::vector<PlanCandidate> plans;
  if (!are_equally_deep(plan) || !has_layers_for_chunks(plan, *job) || !has_intact_stage(plan, *job))
    return plans;
  Repair repair(plan, job, score, stop);
  const auto offer = [&](PlanCandidate candidate) {
    if (is_possible(*job, candidate.shape(), limits)) plans.push_back(std::move(candidate));
  };
  const auto offer_all = [&] {
    const Plan complete_plan = repair.complete_plan();
    if (complete_plan.pipelines.empty()) return;
    const PlanCandidate fitted = fit_plan(job, complete_plan, score);
    offer(fitted);
    if (Plan less = drop_slow_sites(fitted, score, stop);
        less.pipelines.size() < complete_plan.pipelines.size())
      offer(fit_plan(job, std::move(less), score));
    const int spare = static_cast<int>(repair.unused().size()) / depth(complete_plan);
    const int step = std::max(1, (spare + max_added_pipelines - 1) / max_added_pipelines);
    for (int more = spare; more > 0 && !is_stopped(stop); more -= step)
      if (is_possible(*job, {depth(complete_plan), static_cast<int>(complete_plan.pipelines.size()) + more},
                      limits))
        offer(fit_plan(job, repair.with_added_pipelines(complete_plan, more), score));
  };
  try {
    offer_all();
  } catch (const WorkStopped&) {  // the plans so far are returned
  }
  std::stable_sort(plans.begin(), plans.end(), is_better);
  return plans;
}

}  // namespace dtfm::search
