// dtfm-plan --diff: compares two plans.
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/plan_formatting.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/write_output.hpp"
#include "cli/plan/plan_options.hpp"
#include "cli/plan/summary.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/units.hpp"
#include "planner/io/plan_diff_document.hpp"
#include "planner/io/running_plan.hpp"

namespace dtfm::cli {
namespace {

std::string format_device_list(const std::vector<std::string>& ids) {
  return fmt::format("{} ({})", format_count(static_cast<long long>(ids.size()), "device"),
                     truncate_text(fmt::format("{}", fmt::join(ids, " ")), 80));
}

std::string format_role(const api::DeviceRole& role) {
  return fmt::format("stage {}, layers {}{}", role.stage, format_layers(role.layers),
                     role.tensor > 1 ? fmt::format(", rank {} of {}", role.rank, role.tensor) : "");
}

std::string format_changes(const api::PlanDiff& diff) {
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
    text += fmt::format(
        "{} with the same layers, but other neighbours, micro-batches, order of passes or recomputed or "
        "offloaded "
        "layers\n",
        format_count(static_cast<long long>(neighbours), "device"));
  return text;
}

std::string format_migration_summary(const api::PlanDiff& diff, const Topology& topology) {
  if (diff.models) return "State migration: " + io::no_migration_reason(diff) + "\n";
  const api::MigrationSummary& migration = diff.migration.summary.value();
  if (migration.devices.empty()) return "State migration: none\n";
  std::string text = "State migration: " + io::format_bytes(Bytes(migration.bytes));
  if (migration.seconds) text += fmt::format(", in {}", io::format_seconds(Seconds(*migration.seconds)));
  if (migration.usd > 0) text += fmt::format(", for {:.4g} USD", migration.usd);
  if (migration.checkpoint_bytes > 0)
    text += fmt::format("; from a checkpoint {}, state that no device holds any more{}",
                        io::format_bytes(Bytes(migration.checkpoint_bytes)),
                        migration.seconds ? " (its time is not counted)" : "");
  return text + "\n" + format_migration(migration, topology);
}

std::string format_diff(const api::PlanDiffRequest& plans, const api::PlanDiff& diff) {
  const std::string &first = plans.first.name, &second = plans.second.name;
  const std::vector<io::DecisionDiff> decisions = io::decision_diffs(plans);
  if (decisions.empty() && diff.devices.is_same())
    return fmt::format("{} and {} are the same plan\n", first, second);
  Rows rows = {{"decision", first, second}};
  for (const auto& [name, before, after] : decisions) rows.push_back({name, before, after});
  std::string devices;
  if (!diff.devices.leave.empty()) devices += "Removed: " + format_device_list(diff.devices.leave) + "\n";
  if (!diff.devices.enter.empty()) devices += "Added: " + format_device_list(diff.devices.enter) + "\n";
  return join_blocks({rows.size() > 1 ? table(rows) : "", devices, format_changes(diff),
                      format_migration_summary(diff, plans.problem.topology)});
}

api::PlanDiffRequest read_request(const PlanOptions& options) {
  std::optional<Topology> topology;
  if (options.topology.is_given()) topology = read(options.topology);
  api::PlanDiffRequest plans;
  plans.first = io::read_running_plan(options.diff->front(), io::default_job());
  plans.second = io::read_running_plan(options.diff->back(), io::default_job());
  plans.knows_network = topology.has_value();
  plans.problem = {topology ? *topology : api::topology_without_links(plans.first, plans.second),
                   plans.second.job,
                   {},
                   io::built_in_roofline()};
  plans.problem.constants = io::calibration_for({}, plans.second.job, *plans.problem.topology).constants;
  return plans;
}

}  // namespace

int run_plan_diff(const PlanOptions& options) {
  const auto& [first_file, second_file] = options.diff.value();
  const io::ReadLog read;
  const api::PlanDiffRequest plans = read_request(options);
  if (options.output) {
    check_outputs(std::array{file_of(options.topology), first_file, second_file},
                  std::array{*options.output});
    check_not_read(read, std::array{*options.output});
    check_kind(*options.output, io::is_plan_diff_prefix, "comparison of plans");
  }
  const api::PlanDiff diff = api::compare_plans(plans);
  write_output(options.output, options.format, io::plan_diff_json(plans, diff), format_diff(plans, diff),
               options.color);
  return exit_code::done;
}

}  // namespace dtfm::cli
