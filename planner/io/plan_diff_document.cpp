#include "planner/io/plan_diff_document.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/io/text/pass_order.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/units.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/shards.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/io/running_plan.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

ordered_json role_json(const api::DeviceRole& role) {
  ordered_json json = {{"stage", role.stage},
                       {"rank", role.rank},
                       {"tensor", role.tensor},
                       {"layers", role.layers},
                       {"micro_batches", role.micro_batches},
                       {"before", role.before},
                       {"after", role.after}};
  if (role.warm_up) json["warm_up"] = *role.warm_up;
  if (role.recompute_layers) json["recompute_layers"] = *role.recompute_layers;
  if (!role.passes.empty()) json["passes"] = format_passes(role.passes);
  return json;
}

std::string format_setting(const SettingTraits& setting, const api::RunningPlan& running) {
  const bool has_effect = !setting.is_within_tensor_groups || tensor_degrees(running.plan) != std::vector{1};
  const SettingValue value = has_effect ? setting.get(running.job) : default_value(setting.kind);
  if (is_none(value)) return std::string(setting.diff.none);
  const auto* rate = std::get_if<BitsPerSecond>(&value);
  return fmt::format("{}{}", setting.diff.prefix, rate ? format_rate(*rate) : format_value(value));
}

}  // namespace

std::vector<DecisionDiff> decision_diffs(const api::PlanDiffRequest& plans) {
  std::vector<DecisionDiff> result;
  const auto add = [&](std::string_view name, const auto& value) {
    const std::string a = fmt::format("{}", value(plans.first)), b = fmt::format("{}", value(plans.second));
    if (a != b) result.push_back({std::string(name), a, b});
  };
  const auto add_section = [&](SettingSection section) {
    for (const SettingTraits* it : settings_by_rank([](const auto& row) { return row.diff.rank; }))
      if (it->section == section && !it->is_degree)
        add(it->diff.name.empty() ? it->name : it->diff.name,
            [&](const auto& running) { return format_setting(*it, running); });
  };
  add("stages", [](const auto& it) { return depth(it.plan); });
  add("pipelines", [](const auto& it) { return it.plan.pipelines.size(); });
  add("tensor", [](const auto& it) { return fmt::format("{}", fmt::join(tensor_degrees(it.plan), ", ")); });
  add_section(SettingSection::parallelism);
  add("sequence", [](const auto& it) { return sequence_length(it.job.model); });
  add_section(SettingSection::training);
  add_section(SettingSection::compression);
  const Job &from = plans.first.job, &to = plans.second.job;
  if (api::model_difference(from, to)) result.push_back({"model", from.name, to.name});
  return result;
}

std::string no_migration_reason(const api::PlanDiff& diff) {
  if (!diff.models) return "";
  return "none of the first plan's state can be reused, because the models differ: " +
         format_model_difference(*diff.models);
}

std::string plan_diff_json(const api::PlanDiffRequest& plans, const api::PlanDiff& diff) {
  const std::vector<DecisionDiff> decisions = decision_diffs(plans);
  ordered_json json = {{"schema", "dtfm-plan-diff/1"},
                       {"plans", {plans.first.name, plans.second.name}},
                       {"same", decisions.empty() && diff.devices.is_same()}};
  json["decisions"] = ordered_json::object();
  for (const auto& [name, first, second] : decisions) json["decisions"][name] = {first, second};
  json["added"] = diff.devices.enter;
  json["removed"] = diff.devices.leave;
  json["changes"] = ordered_json::array();
  for (const auto& [id, first, second] : diff.devices.changes)
    json["changes"].push_back({{"device", id}, {"first", role_json(first)}, {"second", role_json(second)}});
  if (diff.models)
    json["no_migration_reason"] = no_migration_reason(diff);
  else
    json["migration"] = migration_json(diff.migration.summary.value(), plans.problem.topology);
  return format_json(json);
}

bool is_plan_diff_prefix(const std::string& text) {
  return text.find("\"dtfm-plan-diff/") != std::string::npos;  // the schema is the first key
}

}  // namespace dtfm::io
