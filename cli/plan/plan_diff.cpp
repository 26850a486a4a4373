#include "cli/plan/plan_diff.hpp"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/plan_formatting.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/write_output.hpp"
#include "cli/plan/warm_start.hpp"
#include "core/base/index.hpp"
#include "core/base/shared.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/units.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/shards.hpp"
#include "planner/api/plan_diff.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/io/running_plan.hpp"

namespace dtfm::cli {
namespace {

using nlohmann::ordered_json;

struct Decision {
  std::string name, first, second;
};

struct PlanDiff {
  std::vector<Decision> decisions;  // only those that differ
  api::DeviceDiff devices;
  std::string no_migration_reason;  // why there is no `migration`; empty if there is one
  api::MigrationSummary migration;
  Shared<Topology> topology;  // of the devices of `migration`

  bool is_same() const { return decisions.empty() && devices.is_same(); }
};

std::string format_setting(const SettingTraits& setting, const api::RunningPlan& running) {
  const bool has_effect = !setting.is_within_tensor_groups || tensor_degrees(running.plan) != std::vector{1};
  const SettingValue value = has_effect ? setting.get(running.job) : default_value(setting.kind);
  if (is_none(value)) return std::string(setting.diff.none);
  const auto* rate = std::get_if<BitsPerSecond>(&value);
  return fmt::format("{}{}", setting.diff.prefix, rate ? io::format_rate(*rate) : format_value(value));
}

std::vector<Decision> decisions(const api::RunningPlan& first, const api::RunningPlan& second) {
  std::vector<Decision> result;
  const auto add = [&](std::string_view name, const auto& value) {
    const std::string a = fmt::format("{}", value(first)), b = fmt::format("{}", value(second));
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
  return result;
}

/// Returns a topology of the devices of both plans, without links.
Topology topology_without_links(const api::RunningPlan& first, const api::RunningPlan& second) {
  Topology topology;
  topology.name = "of both plans";
  std::set<std::string> known;
  for (const api::RunningPlan* plan : {&first, &second})
    for (const std::string& id : plan->ids) {
      if (!known.insert(id).second) continue;
      topology.devices.emplace_back();
      topology.devices.back().id = id;
    }
  return topology;
}

void check_devices(const api::RunningPlan& running, const Plan& plan, const Topology& topology) {
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p)
    for (std::size_t s = 0; s < plan.pipelines[p].stages.size(); ++s)
      for (std::size_t i = 0; i < plan.pipelines[p].stages[s].devices.size(); ++i)
        if (plan.pipelines[p].stages[s].devices[i] == cost::no_device) {
          const int device = running.plan.pipelines[p].stages[s].devices[i];
          throw Error(running.name,
                      fmt::format("/pipelines/{}/stages/{}/devices/{}: topology {} has no device {}; "
                                  "only the first plan may use devices that are gone",
                                  p, s, i, topology.name, running.ids[at(device)]));
        }
}

/// Unless `knows_network`, sources and seconds are unknown, and the topology needs no links.
api::MigrationSummary migration(const api::RunningPlan& first, const api::RunningPlan& second,
                                const Shared<Topology>& topology, bool knows_network) {
  const Problem problem{topology, second.job, io::calibration_for({}, second.job, *topology).constants,
                        io::built_in_roofline()};
  const search::WarmStart before = io::warm_start(first, problem, 0),
                          after = io::warm_start(second, problem, 0);
  check_devices(second, after.plan, topology);
  const api::PlanMigration found = api::migration_between(problem, before, after, knows_network);
  io::check_migration_steps(first, found.steps, static_cast<int>(pipeline_major(after.plan).size()));
  return found.summary.value();
}

PlanDiff compare_plans(const api::RunningPlan& first, const api::RunningPlan& second,
                       const std::optional<Topology>& topology) {
  PlanDiff diff;
  diff.decisions = decisions(first, second);
  diff.devices = api::compare_devices(first, second);
  diff.no_migration_reason = io::format_model_difference(first.job, second.job);
  if (!diff.no_migration_reason.empty()) {
    diff.no_migration_reason = "none of the first plan's state can be reused, because the models differ: " +
                               diff.no_migration_reason;
    diff.decisions.push_back({"model", first.job.name, second.job.name});
    return diff;
  }
  diff.topology = topology ? *topology : topology_without_links(first, second);
  diff.migration = migration(first, second, diff.topology, topology.has_value());
  return diff;
}

ordered_json role_json(const api::DeviceRole& role) {
  return {{"stage", role.stage},
          {"rank", role.rank},
          {"tensor", role.tensor},
          {"layers", role.layers},
          {"micro_batches", role.micro_batches},
          {"before", role.before},
          {"after", role.after}};
}

std::string diff_json(const PlanOptions& options, const PlanDiff& diff) {
  ordered_json json = {{"schema", "dtfm-plan-diff/1"}, {"plans", *options.diff}, {"same", diff.is_same()}};
  json["decisions"] = ordered_json::object();
  for (const auto& [name, first, second] : diff.decisions) json["decisions"][name] = {first, second};
  json["added"] = diff.devices.enter;
  json["removed"] = diff.devices.leave;
  json["changes"] = ordered_json::array();
  for (const auto& [id, first, second] : diff.devices.changes)
    json["changes"].push_back({{"device", id}, {"first", role_json(first)}, {"second", role_json(second)}});
  if (diff.no_migration_reason.empty())
    json["migration"] = io::migration_json(diff.migration, diff.topology);
  else
    json["no_migration_reason"] = diff.no_migration_reason;
  return io::format_json(json);
}

std::string format_device_list(const std::vector<std::string>& ids) {
  return fmt::format("{} ({})", format_count(static_cast<long long>(ids.size()), "device"),
                     truncate_text(fmt::format("{}", fmt::join(ids, " ")), 80));
}

std::string format_role(const api::DeviceRole& role) {
  return fmt::format("stage {}, layers {}{}", role.stage, format_layers(role.layers),
                     role.tensor > 1 ? fmt::format(", rank {} of {}", role.rank, role.tensor) : "");
}

std::string format_changes(const PlanDiff& diff) {
  Rows rows = {{"device", "before", "after"}};
  std::size_t all = 0, neighbours = 0;
  for (const auto& [id, first, second] : diff.devices.changes) {
    if (!first.has_other_layers(second)) {
      ++neighbours;
      continue;
    }
    if (++all <= max_rows) rows.push_back({id, format_role(first), format_role(second)});
  }
  std::string text = all > 0 ? truncated_table(rows, all, "devices") : "";
  if (neighbours > 0)
    text += fmt::format("{} with the same layers, but other neighbours or micro-batches\n",
                        format_count(static_cast<long long>(neighbours), "device"));
  return text;
}

std::string format_migration_summary(const PlanDiff& diff) {
  if (!diff.no_migration_reason.empty()) return "State migration: " + diff.no_migration_reason + "\n";
  const api::MigrationSummary& migration = diff.migration;
  if (migration.devices.empty()) return "State migration: none\n";
  std::string text = "State migration: " + io::format_bytes(Bytes(migration.bytes));
  if (migration.seconds) text += fmt::format(", in {}", io::format_seconds(Seconds(*migration.seconds)));
  if (migration.usd > 0) text += fmt::format(", for {:.4g} USD", migration.usd);
  if (migration.checkpoint_bytes > 0)
    text += fmt::format("; from a checkpoint {}, state that no device holds any more{}",
                        io::format_bytes(Bytes(migration.checkpoint_bytes)),
                        migration.seconds ? " (its time is not counted)" : "");
  return text + "\n" + format_migration(migration, diff.topology);
}

std::string format_diff(const PlanOptions& options, const PlanDiff& diff) {
  const auto& [first, second] = *options.diff;
  if (diff.is_same()) return fmt::format("{} and {} are the same plan\n", first, second);
  Rows rows = {{"decision", first, second}};
  for (const auto& [name, before, after] : diff.decisions) rows.push_back({name, before, after});
  std::string devices;
  if (!diff.devices.leave.empty()) devices += "Removed: " + format_device_list(diff.devices.leave) + "\n";
  if (!diff.devices.enter.empty()) devices += "Added: " + format_device_list(diff.devices.enter) + "\n";
  return join_blocks(
      {rows.size() > 1 ? table(rows) : "", devices, format_changes(diff), format_migration_summary(diff)});
}

bool begins_as_diff(const std::string& begin) {
  return begin.find("\"dtfm-plan-diff/") != std::string::npos;  // the schema is the first key
}

}  // namespace

int run_plan_diff(const PlanOptions& options) {
  const auto& [first_file, second_file] = options.diff.value();
  const io::ReadLog read;
  std::optional<Topology> topology;
  if (!options.topology.empty()) topology = io::read_topology(options.topology);
  const api::RunningPlan first = io::read_running_plan(first_file, io::default_job());
  const api::RunningPlan second = io::read_running_plan(second_file, io::default_job());
  if (options.output) {
    check_outputs(std::array{options.topology, first_file, second_file}, std::array{*options.output});
    check_not_read(read, std::array{*options.output});
    check_kind(*options.output, begins_as_diff, "comparison of plans");
  }
  const PlanDiff diff = compare_plans(first, second, topology);
  write_output(options.output, options.format, diff_json(options, diff), format_diff(options, diff),
               options.color);
  return exit_code::done;
}

}  // namespace dtfm::cli
