#include "core/plan/target_settings.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "core/base/kind_table.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/target.hpp"
#include "core/plan/target_requirements.hpp"

namespace dtfm {
namespace {

std::string format_setting(const Job& job, const SettingTraits& setting) {
  if (job.automatic[setting.kind])
    return listed_values(job, setting.kind).empty() ? "auto" : format_allowed(job, setting.kind);
  const SettingValue value = setting.get(job);
  if (is_none(value)) return "none";
  const auto* ratio = std::get_if<CompressionRatio>(&value);
  return ratio && !ratio->preset ? fmt::format("{:.4g}", ratio->ratio) : format_value(value);
}

/// The schedule that runs instead of the job's: the same order of computations if there is one.
std::optional<SettingValue> same_order(const TargetTraits& target, const std::vector<SettingValue>& run,
                                       const Job& job) {
  for (const Schedule it : target.schedules)
    if (traits(it).order == traits(job.execution.schedule).order && is_among(run, name_of(it)))
      return name_of(it);
  return std::nullopt;
}

/// Where a target runs no sharding of a plan, zero1, if it runs that, because it partitions the optimizer
/// state as well.
std::optional<SettingValue> weaker_sharding(const TargetTraits& target, const Job& job) {
  if (!traits(job.execution.optimizer_sharding).optimizer ||
      !has(target.optimizer_shardings, OptimizerSharding::zero1))
    return std::nullopt;
  return name_of(OptimizerSharding::zero1);
}

/// hierarchical-ring, if the target runs it and the job's algorithm also shards inside sites.
std::optional<SettingValue> same_sharing(const std::vector<SettingValue>& run, const Job& job) {
  const SettingValue rings = name_of(GradientSync::hierarchical_ring);
  if (!traits(job.execution.gradient_sync).shares_by_site() || !is_among(run, rings)) return std::nullopt;
  return rings;
}

/// Where a target does not decide about recomputation by stage: full, if it runs that, because it needs least
/// memory.
std::optional<SettingValue> same_recomputation(const TargetTraits& target, const Job& job) {
  if (!traits(job.execution.recomputation).is_per_stage() || !has(target.recomputations, Recomputation::full))
    return std::nullopt;
  return name_of(Recomputation::full);
}

/// The value that is nearest to one which the target does not run; nullopt: none is nearer than others.
std::optional<SettingValue> nearest(const TargetTraits& target, const Job& job, Setting setting,
                                    const std::vector<SettingValue>& run, bool decides) {
  if (setting == Setting::gradient_sync) return same_sharing(run, job);
  if (setting == Setting::schedule) return same_order(target, run, job);
  if (setting == Setting::recompute && decides) return same_recomputation(target, job);
  if (setting == Setting::optimizer_sharding && decides) return weaker_sharding(target, job);
  return std::nullopt;
}

/// Whether a search may begin with the value. Schedules that require `chunks` are tried later.
bool can_begin_with(Setting setting, const SettingValue& value) {
  return setting != Setting::schedule ||
         !traits(kind_named(schedule_table(), std::get<std::string_view>(value)).value()).has_chunks;
}

/// Restricts the job's list to the values that the target runs, and `run` to that list unless it is empty. A
/// list of fewer than two values is removed from the job.
void restrict_list(Setting setting, std::vector<SettingValue>& run, Job& job) {
  std::vector<SettingValue> listed = listed_values(job, setting);
  std::erase_if(listed, [&](const SettingValue& it) { return !is_among(run, it); });
  if (std::none_of(listed.begin(), listed.end(), [&](const auto& it) { return can_begin_with(setting, it); }))
    listed.clear();
  if (listed.size() < 2)
    job.listed.erase(setting);
  else
    job.listed[setting] = listed;
  if (!listed.empty()) run = std::move(listed);
}

/// `decides`: takes the first of several values; otherwise leaves them open.
void restrict_setting(const TargetTraits& target, const SettingTraits& setting, bool decides, Job& job) {
  std::vector<SettingValue> run = values_run(target, job, setting.kind);
  if (run.empty()) return;
  bool& is_auto = job.automatic[setting.kind];
  if (is_auto) restrict_list(setting.kind, run, job);
  const bool is_run = is_among(run, setting.get(job));
  const auto instead = is_auto || is_run ? std::nullopt : nearest(target, job, setting.kind, run, decides);
  const auto first =
      std::find_if(run.begin(), run.end(), [&](const auto& it) { return can_begin_with(setting.kind, it); });
  if (!is_run) setting.set(job, instead.value_or(first == run.end() ? run.front() : *first));
  if (is_auto || (!is_run && !instead)) is_auto = run.size() > 1 && !decides && setting.may_be_auto;
}

std::vector<TargetChange> restrict_settings(Job& job, Target target, bool decides) {
  job.target = target;
  std::vector<TargetChange> changes;
  for (const SettingTraits* setting : settings_by_rank([](const auto& it) { return it.target_rank; })) {
    // Within groups of one device, these have no effect.
    if (setting->is_within_tensor_groups && job.parallelism.tensor == 1 && !job.automatic[Setting::tensor])
      continue;
    const std::string before = format_setting(job, *setting);
    restrict_setting(traits(target), *setting, decides, job);
    const std::string after = format_setting(job, *setting);
    if (before != after)
      changes.push_back({fmt::format("{}.{}", name_of(setting->section), setting->name), before, after});
  }
  if (!traits(job.execution.schedule).has_chunks) job.execution.chunks.reset();
  return changes;
}

}  // namespace

std::string format_change(const TargetChange& change) {
  const std::string key = change.key.substr(change.key.find('.') + 1);
  if (change.to == "auto") return fmt::format("planned {} instead of {}", key, change.from);
  return fmt::format("{} {} instead of {}", key, change.to, change.from);
}

std::vector<TargetChange> decided_changes(std::vector<TargetChange> changes, const Job& decided) {
  for (TargetChange& change : changes)
    for (const SettingTraits& it : setting_table())
      if (change.to == "auto" && change.key == fmt::format("{}.{}", name_of(it.section), it.name))
        change.to = format_value(it.get(decided));
  return changes;
}

std::vector<TargetChange> restrict_to_target(Job& job, Target target) {
  return restrict_settings(job, target, false);
}

namespace {

/// Drops the numbers of recomputed layers of stages, and the recomputation if they are 0.
void leave_recomputation_to_settings(Plan& plan) {
  bool none = traits(plan.execution.recomputation).is_per_stage();
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) {
      none = none && stage.recompute_layers == 0;
      stage.recompute_layers.reset();
    }
  if (none) plan.execution.recomputation = Recomputation::none;
}

}  // namespace

TargetedPlan run_on_target(const Plan& plan, const Job& job, Target target) {
  TargetedPlan result{job, plan, {}};
  if (!has(traits(target).recomputations, plan.execution.recomputation))
    leave_recomputation_to_settings(result.plan);
  check_runnable(traits(target), result.plan, job);
  result.job.automatic = {};
  result.job.execution = result.plan.execution;
  result.job.parallelism.tensor = plan.tensor;
  result.job.parallelism.uniform_pipelines = traits(target).uniform_pipelines;
  result.changes = restrict_settings(result.job, target, true);
  result.plan.execution = result.job.execution;
  return result;
}

}  // namespace dtfm
