#include "cli/plan/warm_start.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/virtual_stages.hpp"
#include "core/io/importers/foreign_plan.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::cli {
namespace {

std::string row(std::string_view name, const std::string& text) {
  return fmt::format("  {:<24}{}\n", name, text);
}

std::string format_obstacle(const api::WarmStartResult& result) {
  switch (result.obstacle) {
    case api::ContinuationObstacle::none:
      return "";
    case api::ContinuationObstacle::out_of_memory:
      return "it exceeds the memory of its devices";
    case api::ContinuationObstacle::devices_gone:
      return fmt::format("{} of its {} {} gone", result.devices_gone, format_count(result.devices, "device"),
                         result.devices_gone == 1 ? "is" : "are");
    case api::ContinuationObstacle::not_allowed:
      break;
  }
  return "the job, the limits, or times or prices of its devices do not allow it";
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

RunningPlan read_running_plan(const std::string& file, const Job& fallback) {
  const io::PlanSource source = io::read_plan_source(file, std::nullopt);
  if (source.format != io::PlanFormat::json)
    throw Error(file, "is not a plan written by dtfm-plan -o (JSON)");
  Job job = io::plan_job(source).value_or(fallback);
  io::StandalonePlan named = source.json->standalone_plan(job);
  job.execution = named.plan.execution;
  try {
    for (const Pipeline& pipeline : named.plan.pipelines) layers_by_stage(pipeline, stage_chunks(job));
  } catch (const Error& error) {
    throw Error(file, error.what());
  }
  return {file, std::move(named), std::move(job)};
}

std::string format_model_difference(const Job& from, const Job& to) {
  const std::optional<api::ModelDifference> difference = api::model_difference(from, to);
  if (!difference) return "";
  const auto& [kind, layer, before, after] = *difference;
  switch (kind) {
    case api::ModelDifference::Kind::layer_count:
      return fmt::format("{:.0f} layers, not {:.0f}", before, after);
    case api::ModelDifference::Kind::parameters:
      return fmt::format("layer {} of {} parameters, not {}", layer, before, after);
    case api::ModelDifference::Kind::tied_parameters:
      break;
  }
  return fmt::format("layer {} with {} tied parameters, not {}", layer, before, after);
}

search::WarmStart warm_start(const RunningPlan& running, const Problem& problem, double horizon_s) {
  if (const std::string other = format_model_difference(running.job, problem.job); !other.empty())
    throw Error(running.file, fmt::format("is for another model than job {}: it has {}, so no state can be "
                                          "migrated; give its own job by --job FILE",
                                          io::quote(problem.job.name), other));
  return api::warm_start({running.named.plan, running.named.ids, running.job}, problem.topology, horizon_s);
}

void check_migration_steps(const RunningPlan& running, double steps, int devices) {
  if (steps > api::max_migration_steps)
    throw Error(running.file,
                fmt::format("has stages of too many devices, {} at most: finding the sources of the state "
                            "of {} would take {:.2g} steps, more than {:.0e}",
                            tensor_degrees(running.named.plan).back(), format_count(devices, "device"), steps,
                            api::max_migration_steps));
}

std::optional<search::WarmStart> read_warm_start(const PlanOptions& options, const Problem& problem) {
  if (!options.warm_start) return std::nullopt;
  const RunningPlan running = read_running_plan(*options.warm_start, problem.job);
  if (!options.job && running.job.name != problem.job.name)
    throw Error(running.file, fmt::format("is for job {}, but without --job FILE the job is the built-in {}",
                                          io::quote(running.job.name), problem.job.name));
  search::WarmStart warm = warm_start(running, problem, options.horizon.value_or(api::default_horizon_s));
  const int devices = problem.topology->size();
  check_migration_steps(running, api::migration_steps(problem, warm, devices), devices);
  return warm;
}

io::PlanRecord::WarmStart make_warm_start_record(const PlanOptions& options, const api::PlanResult& search,
                                                 const search::IterationSearchOptions& requested) {
  const api::WarmStartResult result = api::compare_with_running(requested, search);
  return {options.warm_start.value(), requested.warm->horizon_s, result, format_obstacle(result)};
}

std::string format_warm_start(const io::PlanRecord::WarmStart& warm, Objective objective, ModelInput input,
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
  if (!warm.obstacle.empty()) text += row("running plan", "cannot continue: " + warm.obstacle);
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
