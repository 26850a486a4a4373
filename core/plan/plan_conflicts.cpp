#include "core/plan/plan_conflicts.hpp"

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/plan/settings.hpp"

namespace dtfm {
namespace {

/// An empty text means that there is no value.
PlanConflict conflict_of(const SettingTraits& setting, const std::string& planned,
                         const std::string& of_job) {
  const std::string job_key = fmt::format("{}.{}", name_of(setting.section), setting.name);
  const std::string key =
      setting.section == SettingSection::compression ? job_key : std::string(setting.name);
  const std::string has = planned.empty() ? "no " + key : key + " " + planned;
  const std::string wants = of_job.empty() ? fmt::format("the job has no {}", job_key)
                                           : fmt::format("the job's {} is {}", job_key, of_job);
  const std::string fix =
      planned.empty() ? "remove the job's"
                      : fmt::format("set the job's to {}{}", planned, setting.may_be_auto ? " or auto" : "");
  return {key, fmt::format("{}, but {}", has, wants), fix};
}

}  // namespace

std::string format_conflict(const PlanConflict& conflict) {
  return fmt::format("{}; {}, or use the job that the plan was made for", conflict.problem, conflict.fix);
}

std::vector<PlanConflict> plan_conflicts(const Plan& plan, const Job& job) {
  std::vector<PlanConflict> conflicts;
  for (const SettingTraits& setting : setting_table()) {
    if (setting.get_in_plan == nullptr) continue;
    const SettingValue planned = setting.get_in_plan(plan.execution);
    if (!allows(job, setting.kind, planned))
      conflicts.push_back(conflict_of(setting, format_value(planned), format_allowed(job, setting.kind)));
  }
  return conflicts;
}

void check_no_conflict(const Plan& plan, const Job& job, const std::string& where) {
  const std::vector<PlanConflict> conflicts = plan_conflicts(plan, job);
  if (conflicts.empty()) return;
  throw Error(where, format_conflict(conflicts.front()));
}

}  // namespace dtfm
