#include "cli/plan/summary.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "core/base/index.hpp"
#include "core/io/text/units.hpp"
#include "planner/io/plan_notes.hpp"

namespace dtfm::cli {
namespace {

std::string row(std::string_view name, const std::string& text) {
  return fmt::format("  {:<24}{}\n", name, text);
}

/// "1.5 s per iteration; the running plan would take 4 s; breaks even after 3 iterations"
std::string format_gain(const api::WarmStartResult& warm, Objective objective, ModelInput input) {
  const auto& [value, unchanged] = *warm.gain;
  const double old_iteration_s = *warm.unchanged_iteration_s;
  std::string text = !traits(objective).device_weight
                         ? fmt::format("{:.4f} s per iteration; the running plan would take {:.4f} s", value,
                                       old_iteration_s)
                         : fmt::format("{:.4g} {}; {:.4g} with the running plan, in iterations of {:.4f} s",
                                       value, texts(objective, input).unit, unchanged, old_iteration_s);
  if (warm.break_even_iterations && *warm.break_even_iterations > 0)
    text += fmt::format("; breaks even after {}",
                        format_count(std::llround(*warm.break_even_iterations), "iteration"));
  return text;
}

std::string format_byte_count(double bytes) {
  return io::format_bytes(Bytes(bytes));
}

}  // namespace

std::string format_warm_start(const api::WarmStartAnswer& warm, Objective objective, ModelInput input,
                              const Topology& topology) {
  const std::string horizon = io::format_seconds(Seconds(warm.horizon_s));
  std::string text =
      styled(Style::heading, fmt::format("Warm start from {}, for {}", warm.plan, horizon)) + "\n";
  if (warm.result.keeps_plan)
    return text + row("kept", "the plan is unchanged: no other one is worth its state migration");
  const api::MigrationSummary& migration = warm.result.migration;
  const auto devices = std::count_if(migration.devices.begin(), migration.devices.end(),
                                     [](const auto& it) { return it.bytes > 0; });
  if (migration.bytes > 0)
    text += row("migrates",
                fmt::format("{} to {}, in {}{}", format_byte_count(migration.bytes),
                            format_count(devices, "device"), io::format_seconds(Seconds(*migration.seconds)),
                            migration.usd > 0 ? fmt::format(", for {:.4g} USD", migration.usd) : ""));
  else
    text += row("migrates", "nothing between devices");
  if (migration.checkpoint_bytes > 0)
    text += row("from a checkpoint", format_byte_count(migration.checkpoint_bytes) +
                                         ", state that no device holds any more; its time is not counted");
  if (const std::string obstacle = io::format_obstacle(warm.result); !obstacle.empty())
    text += row("running plan", "cannot continue: " + obstacle);
  if (warm.result.gain) {
    const std::string gain = format_gain(warm.result, objective, input);
    text += row("gain", warm.result.gain->value > 0 ? styled(Style::good, gain) : gain);
  }
  return text + format_migration(migration, topology);
}

std::string format_migration(const api::MigrationSummary& migration, const Topology& topology) {
  if (migration.devices.empty()) return "";
  const bool is_known = std::any_of(migration.devices.begin(), migration.devices.end(),
                                    [](const auto& it) { return !it.sources.empty(); });
  Rows rows = {{"device", "fetches layers", "bytes"}};
  if (is_known) rows.front().emplace_back("from");
  for (const auto& it : migration.devices) {
    if (rows.size() > max_rows) break;
    std::vector<std::string> layers;
    for (const auto& range : it.layers) layers.push_back(format_layers(range));
    rows.push_back({topology.devices[at(it.device)].id, fmt::format("{}", fmt::join(layers, " ")),
                    format_byte_count(it.bytes + it.checkpoint_bytes)});
    if (is_known) rows.back().push_back(fmt::format("{}", fmt::join(api::source_names(it, topology), " ")));
  }
  return truncated_table(rows, migration.devices.size(), "devices");
}

}  // namespace dtfm::cli
