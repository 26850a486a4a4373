#include "planner/io/plan_notes.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/io/text/units.hpp"
#include "core/plan/settings.hpp"

namespace dtfm::io {

std::vector<std::string> batch_notes(const Plan& plan, const Job& job) {
  const auto by_count = [](const Pipeline& a, const Pipeline& b) {
    return a.micro_batches < b.micro_batches;
  };
  const auto [smallest, largest] =
      std::minmax_element(plan.pipelines.begin(), plan.pipelines.end(), by_count);
  long long sum = 0;
  for (const Pipeline& pipeline : plan.pipelines) sum += pipeline.micro_batches;
  const int needed = micro_batch_count(job);
  std::vector<std::string> notes;
  if (sum != needed)
    notes.push_back(
        fmt::format("the pipelines compute {} micro-batches, but job {} has {}", sum, job.name, needed));
  if (largest->micro_batches - smallest->micro_batches > 1)
    notes.push_back(
        fmt::format("the micro-batches are not distributed evenly: pipelines compute from {} to {} each",
                    smallest->micro_batches, largest->micro_batches));
  return notes;
}

std::vector<std::string> undecided_notes(const Job& job, const ExecutionConfig& used,
                                         const SettingSet& undecided) {
  std::vector<std::string> choices;
  for (const SettingTraits* it :
       settings_by_rank([](const auto& row) { return static_cast<int>(row.section); }))
    if (undecided[it->kind] && it->get_in_plan != nullptr)
      choices.push_back(fmt::format("{} {}", it->name, format_value(without_preset(it->get_in_plan(used)))));
  if (choices.empty()) return {};
  return {fmt::format("neither the plan nor a search decides what job {} leaves open; used: {}", job.name,
                      fmt::join(choices, ", "))};
}

std::string format_checkpoint_period(const api::CheckpointPeriod& period) {
  if (std::isinf(period.seconds)) return "no checkpoint is written: no device of the plan leaves";
  const char* source = "";
  switch (period.source) {
    case api::PeriodSource::plan_file:
      source = "from the plan file";
      break;
    case api::PeriodSource::young_daly:
      source = "by Young and Daly's formula";
      break;
    case api::PeriodSource::simulation:
      source = "chosen by simulation";
      break;
  }
  return fmt::format("checkpoint period {}, {}", format_seconds(Seconds(period.seconds)), source);
}

}  // namespace dtfm::io
