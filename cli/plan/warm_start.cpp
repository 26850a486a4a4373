#include "cli/plan/warm_start.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/common/plan_formatting.hpp"
#include "cli/common/style.hpp"
#include "cli/common/text_formatting.hpp"
#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "planner/core/virtual_stages.hpp"
#include "planner/io/importers/foreign_plan.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/units.hpp"

namespace dtfm::cli {
namespace {

std::string row(std::string_view name, const std::string& text) {
  return fmt::format("  {:<24}{}\n", name, text);
}

std::string cannot_keep_reason(const search::WarmStart& warm, const search::IterationSearchResult& result) {
  if (result.unchanged)
    return result.unchanged->deficit_bytes > 0 ? "it does not fit the memory of its devices" : "";
  const std::vector<int> devices = pipeline_major(warm.plan);
  if (const auto gone = std::count(devices.begin(), devices.end(), cost::no_device); gone > 0)
    return fmt::format("{} of its {} {} gone", gone,
                       format_count(static_cast<long long>(devices.size()), "device"),
                       gone == 1 ? "is" : "are");
  return "the job, the limits, or times or prices of its devices do not allow it";
}

bool is_same(const search::PlanCandidate& a, const search::PlanCandidate& b) {
  return a.job == b.job && a.plan == b.plan && a.flush == b.flush;
}

double tokens_per_iteration(const Job& job) {
  return static_cast<double>(micro_batch_count(job.training)) * job.training.micro_batch *
         sequence_length(job.model);
}

/// "1.5 s an iteration; the old plan would take 4 s; paid after 3 iterations"
std::string format_gain(const io::PlanRecord::WarmStart& warm) {
  const auto& [value, unchanged, unit] = *warm.gain;
  const double old_iteration_s = *warm.unchanged_iteration_time_s;
  std::string text =
      unit == objective_unit(search::Objective::iteration_time)
          ? fmt::format("{:.4f} s an iteration; the old plan would take {:.4f} s", value, old_iteration_s)
          : fmt::format("{:.4g} {}; of the old plan {:.4g}, in iterations of {:.4f} s", value, unit,
                        unchanged, old_iteration_s);
  if (warm.break_even_iterations && *warm.break_even_iterations > 0)
    text +=
        fmt::format("; paid after {}", format_count(std::llround(*warm.break_even_iterations), "iteration"));
  return text;
}

std::string format_byte_count(double bytes) {
  return io::format_bytes(Bytes(bytes));
}

}  // namespace

RunningPlan read_running_plan(const std::string& file, const Job& fallback) {
  const io::PlanSource source = io::read_plan_source(file, std::nullopt);
  if (source.format != io::PlanFormat::json)
    throw Error(file, "is no plan of dtfm-plan; expected JSON as dtfm-plan -o writes it");
  Job job = io::plan_job(source).value_or(fallback);
  io::StandalonePlan named = io::parse_standalone_plan(source.file.text, file, job);
  try {
    for (const Pipeline& pipeline : named.plan.pipelines) layers_by_stage(pipeline, stage_chunks(job));
  } catch (const Error& error) {
    throw Error(file, error.what());
  }
  return {file, std::move(named), std::move(job)};
}

std::string model_difference(const Job& from, const Job& to) {
  const std::vector<Layer> before = layer_chain(from), after = layer_chain(to);
  if (before.size() != after.size()) return fmt::format("{} layers, not {}", before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (before[i].parameters != after[i].parameters)
      return fmt::format("layer {} of {} parameters, not {}", i, before[i].parameters, after[i].parameters);
    if (before[i].tied_parameters != after[i].tied_parameters)
      return fmt::format("layer {} with {} tied parameters, not {}", i, before[i].tied_parameters,
                         after[i].tied_parameters);
  }
  return "";
}

search::WarmStart warm_start(const RunningPlan& running, const Problem& problem, double horizon_s) {
  if (const std::string other = model_difference(running.job, problem.job); !other.empty())
    throw Error(running.file, fmt::format("trains another model than job {}: it has {}, so nothing of it "
                                          "could go on (--job FILE says what is trained)",
                                          io::quote(problem.job.name), other));
  std::map<std::string, int> device_of;
  for (int device = 0; device < problem.topology.size(); ++device)
    device_of[problem.topology.devices[at(device)].id] = device;
  search::WarmStart warm{running.named.plan, running.job, horizon_s};
  for (Pipeline& pipeline : warm.plan.pipelines)
    for (Stage& stage : pipeline.stages)
      for (int& device : stage.devices) {
        const auto now = device_of.find(running.named.ids[at(device)]);
        device = now == device_of.end() ? cost::no_device : now->second;
      }
  return warm;
}

void check_migration_effort(const RunningPlan& running, const cost::MigrationCost& cost, int devices) {
  constexpr double most = 1e9;  // some ten seconds
  if (const double steps = cost.max_steps(devices); steps > most)
    throw Error(
        running.file,
        fmt::format("has stages of too many devices, {} at most: to find out from whom each of {} "
                    "fetches its shares would take {:.2g} steps, and {:.0e} are allowed",
                    tensor_degrees(running.named.plan).back(), format_count(devices, "device"), steps, most));
}

std::optional<search::WarmStart> read_warm_start(const PlanOptions& options, const Problem& problem) {
  if (!options.warm_start) return std::nullopt;
  const RunningPlan running = read_running_plan(*options.warm_start, problem.job);
  if (!options.job && running.job.name != problem.job.name)
    throw Error(running.file, fmt::format("is for job {}, and no job is given, which means the built-in {}; "
                                          "--job FILE says what is trained",
                                          io::quote(running.job.name), problem.job.name));
  search::WarmStart warm = warm_start(running, problem, options.horizon.value_or(default_horizon_s));
  const auto network = std::make_shared<const cost::NetworkCost>(problem.topology, problem.constants);
  check_migration_effort(running, cost::MigrationCost(problem, network, warm.plan, stage_chunks(warm.job)),
                         problem.topology.size());
  return warm;
}

io::PlanRecord::Migration make_migration_record(const cost::Migration& migration, const Topology& topology) {
  io::PlanRecord::Migration record{
      migration.bytes, migration.checkpoint_bytes, migration.seconds, migration.usd, {}};
  for (const cost::MigratedPart& part : migration.parts) {
    const std::string& id = topology.devices[at(part.to)].id;
    if (record.devices.empty() || record.devices.back().id != id)
      record.devices.push_back({id, {}, 0, 0, {}});
    io::PlanRecord::Migration::Device& device = record.devices.back();
    const auto contains = [&](const std::pair<int, int>& it) {  // a tied matrix comes apart from its layer
      return it.first <= part.layers.first && part.layers.second <= it.second;
    };
    if (std::none_of(device.layers.begin(), device.layers.end(), contains))
      device.layers.push_back(part.layers);
    (part.from == cost::no_device ? device.checkpoint_bytes : device.bytes) += part.bytes;
    if (part.from == cost::unspecified_source) continue;
    const std::string from =
        part.from == cost::no_device ? "a checkpoint" : topology.devices[at(part.from)].id;
    if (std::find(device.from.begin(), device.from.end(), from) == device.from.end())
      device.from.push_back(from);
  }
  return record;
}

io::PlanRecord::WarmStart make_warm_start_record(const PlanOptions& options, const api::PlanResult& search,
                                                 const search::WarmStart& warm) {
  const search::PlanCandidate& best = search.best();
  const search::IterationSearchResult& result = search.found;
  io::PlanRecord::WarmStart record;
  record.plan = options.warm_start.value();
  record.horizon_s = warm.horizon_s;
  record.keeps_plan = result.unchanged && is_same(*result.unchanged, best);
  record.cannot_keep_reason = cannot_keep_reason(warm, result);
  const Problem& problem = best.job->problem;
  const cost::MigrationCost cost(problem, best.job->model.shared_network, warm.plan, stage_chunks(warm.job));
  record.migration = make_migration_record(cost.of(best.plan, best.job->model.chunks), problem.topology);
  if (!record.cannot_keep_reason.empty()) return record;
  const auto seconds = [&](const search::PlanCandidate& candidate) {
    for (std::size_t i = 0; i < search.finalist_results.size(); ++i)
      if (is_same(search.plans[i], candidate)) return search.finalist_results[i].seconds;
    return candidate.iteration_s;
  };
  const double before_s = seconds(*result.unchanged), after_s = seconds(best);
  if (!std::isfinite(before_s) || !std::isfinite(after_s)) return record;
  record.unchanged_iteration_time_s = before_s;
  const search::Objective objective = *search::objective_named(options.objective);
  const search::PlanScore score(objective, problem.topology);
  const auto weighted_cost = [&](double elapsed_s, const search::PlanCandidate& plan, double egress_usd) {
    return score.of(elapsed_s, score.total_weight(plan.plan), egress_usd);
  };
  const double unchanged = weighted_cost(before_s, *result.unchanged, result.unchanged->egress_usd);
  const double gain = unchanged - weighted_cost(after_s, best, best.egress_usd);
  if (gain > 0)
    record.break_even_iterations =
        std::ceil(weighted_cost(best.migration.seconds, best, best.migration.usd) / gain);
  const double unit =
      objective == search::Objective::cost_per_token ? 1e6 / tokens_per_iteration(problem.job) : 1;
  record.gain = {gain * unit, unchanged * unit, std::string(objective_unit(objective))};
  return record;
}

std::string format_warm_start(const io::PlanRecord::WarmStart& warm) {
  const std::string horizon = io::format_seconds(Seconds(warm.horizon_s));
  std::string text =
      styled(Style::heading, fmt::format("Going on from {}, for {}", warm.plan, horizon)) + "\n";
  if (warm.keeps_plan)
    return text + row("stays", "the plan as it is: no other is worth what would have to move");
  const io::PlanRecord::Migration& migration = warm.migration;
  const auto devices = std::count_if(migration.devices.begin(), migration.devices.end(),
                                     [](const auto& it) { return it.bytes > 0; });
  if (migration.bytes > 0)
    text += row("moves",
                fmt::format("{} to {}, in {}{}", format_byte_count(migration.bytes),
                            format_count(devices, "device"), io::format_seconds(Seconds(*migration.seconds)),
                            migration.usd > 0 ? fmt::format(", for {:.4g} USD", migration.usd) : ""));
  else
    text += row("moves", "nothing between devices");
  if (migration.checkpoint_bytes > 0)
    text += row("from a checkpoint", format_byte_count(migration.checkpoint_bytes) +
                                         ", which no device holds any more; its time is not counted");
  if (!warm.cannot_keep_reason.empty())
    text += row("the old plan", "cannot go on: " + warm.cannot_keep_reason);
  if (warm.gain)
    text += row("gain", warm.gain->value > 0 ? styled(Style::good, format_gain(warm)) : format_gain(warm));
  return text + format_migration(migration);
}

std::string format_migration(const io::PlanRecord::Migration& migration) {
  if (migration.devices.empty()) return "";
  const bool is_known = std::any_of(migration.devices.begin(), migration.devices.end(),
                                    [](const auto& it) { return !it.from.empty(); });
  Rows rows = {{"device", "lacks of layers", "bytes"}};
  if (is_known) rows.front().emplace_back("from");
  for (const auto& it : migration.devices) {
    if (rows.size() > max_rows) break;
    std::vector<std::string> layers;
    for (const auto& range : it.layers) layers.push_back(format_layers(range));
    rows.push_back({it.id, fmt::format("{}", fmt::join(layers, " ")),
                    format_byte_count(it.bytes + it.checkpoint_bytes)});
    if (is_known) rows.back().push_back(fmt::format("{}", fmt::join(it.from, " ")));
  }
  return truncated_table(rows, migration.devices.size(), "devices");
}

}  // namespace dtfm::cli
