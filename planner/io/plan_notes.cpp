#include "planner/io/plan_notes.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/index.hpp"
#include "core/cluster/more_hosts.hpp"
#include "core/io/text/format_number.hpp"
#include "core/io/text/units.hpp"
#include "core/plan/layer_times.hpp"
#include "core/plan/settings.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/target.hpp"

namespace dtfm::io {
namespace {

using Notes = std::vector<std::string>;

void append(const Notes& more, Notes& notes) {
  notes.insert(notes.end(), more.begin(), more.end());
}

std::string format_devices(std::size_t count) {
  return format_count(static_cast<long long>(count), "device");
}

/// `noun`: the result of the search, "plan".
Notes stop_notes(search::Stopped stopped, std::string_view noun) {
  if (stopped == search::Stopped::time_limit)
    return {fmt::format("stopped by --time-limit: another run may give another {}", noun)};
  if (stopped == search::Stopped::interrupted)
    return {
        fmt::format("interrupted: this is the best {} so far, and another run may give another one", noun)};
  return {};
}

std::string_view format_stopped(search::Stopped stopped) {
  switch (stopped) {
    case search::Stopped::evaluations:
      return "stopped by --evaluations";
    case search::Stopped::converged:
      return "search converged";
    case search::Stopped::optimal:
      return "search ended with a plan that is proven optimal";
    case search::Stopped::complete:
      return "search completed";
    case search::Stopped::time_limit:
      return "stopped by --time-limit";
    case search::Stopped::no_fit:
      return "search ended without a plan that fits in memory";
    case search::Stopped::interrupted:
      break;
  }
  return "interrupted";
}

/// "tokyo-3 needs 21.4 GB and has 16 GB": the device with the largest memory deficit.
std::string format_memory_deficit(const api::PlanAnswer& answer) {
  cost::DeviceMemory worst;
  for (const cost::DeviceMemory& it : answer.estimate.value().memory)
    if (it.needed - it.capacity > worst.needed - worst.capacity) worst = it;
  const std::string text = fmt::format("{} needs {:.3g} GB and has {:.3g} GB",
                                       answer.problem.topology->devices[at(worst.device)].id,
                                       worst.needed / 1e9, worst.capacity / 1e9);
  if (!worst.is_near_limit()) return text;
  return text + fmt::format("; the difference is within the error of predictions, {:.3g} %",
                            100 * cost::memory_error);
}

/// Why the finalists of a search have no simulated times.
Notes simulation_notes(const api::PlanAnswer& answer) {
  switch (answer.simulation) {
    case api::SimulationStatus::interrupted:
      if (answer.search->stopped == search::Stopped::interrupted) return {};
      return {"interrupted before the finalists were simulated: this is the plan with the best estimate"};
    case api::SimulationStatus::late:
      return {
          "no finalist could be simulated within the time limit: this is the plan with the best estimate"};
    case api::SimulationStatus::failed:
      return {"the plans could not be simulated, so this is the plan with the best estimate: " +
              answer.simulation_error};
    case api::SimulationStatus::done:
    case api::SimulationStatus::out_of_memory:
      break;
  }
  return {};
}

/// "recompute: full"
std::string format_setting(const std::pair<Setting, SettingValue>& change) {
  const auto& [setting, value] = change;
  const bool offloads =
      setting == Setting::optimizer && value == SettingValue(name_of(Optimizer::host_offload));
  return fmt::format("{}: {}{}", name_of(setting), format_value(value),
                     offloads ? " (its state on the host)" : "");
}

/// "2 more hosts like cloud/0 (8 × A100-80GB)"
std::string format_hosts(const search::FeasibleChange& change, const Topology& topology) {
  const std::vector<int> devices = host_devices(topology, change.like);
  std::map<int, int> counts;  // by GPU
  for (const int device : devices) ++counts[topology.devices[at(device)].gpu];
  std::vector<std::string> gpus;
  for (const auto& [gpu, count] : counts)
    gpus.push_back(fmt::format("{} × {}", count, topology.gpus[at(gpu)].name));
  return fmt::format("{} like that of {} ({})", format_count(change.hosts, "more host"),
                     topology.devices[at(change.like)].id, fmt::join(gpus, ", "));
}

/// Completes "it would fit".
std::string format_change(const search::FeasibleChange& change, const Problem& problem) {
  using Kind = search::FeasibleChange::Kind;
  const auto& [stages, replicas] = change.shape;
  std::vector<std::string> settings;
  switch (change.kind) {
    case Kind::shape:
      return fmt::format("with {}{}{}: a plan of {} × {} was found",
                         change.frees_stages ? "--pipeline auto" : "",
                         change.frees_stages && change.frees_replicas ? " " : "",
                         change.frees_replicas ? "--data auto" : "", stages, replicas);
    case Kind::settings:
      for (const auto& it : change.settings) settings.push_back(format_setting(it));
      return fmt::format("with {}", fmt::join(settings, " and "));
    case Kind::target:
      return fmt::format("without --target {}", name_of(problem.job.target.value()));
    case Kind::hosts:
      return "with " + format_hosts(change, problem.topology);
    case Kind::memory:
      break;
  }
  return fmt::format("with GPUs of at least {:.0f} GB", change.gigabytes);
}

/// "all 18 devices have 880 GB": the devices of a sum.
std::string format_available(const cost::MemoryNeed& need, const api::PlanAnswer& answer) {
  const double process = answer.problem.constants.process_memory_bytes;
  const std::string reserved =
      process > 0 ? fmt::format(" besides {} each for their processes", format_bytes(Bytes(process))) : "";
  const std::string bytes = format_bytes(Bytes(need.available_bytes)) + reserved;
  if (need.devices == answer.problem.topology->size())
    return fmt::format("all {} have {}", format_devices(at(need.devices)), bytes);
  return fmt::format("plans use at most {}, which have {}", format_devices(at(need.devices)), bytes);
}

/// The proof that no plan fits, in numbers.
std::string format_shortage(const cost::MemoryNeed& need, const api::PlanAnswer& answer) {
  const std::string needed = format_bytes(Bytes(need.needed_bytes));
  if (need.kind == cost::MemoryNeed::Kind::layer) {
    const bool has_parts = std::holds_alternative<Transformer>(answer.problem.job.model);
    const int last = layer_count(answer.problem.job.model) - 1;
    return fmt::format(
        "layer {}{} alone needs {} on {}, and no device that can hold it has more than {}", need.layer,
        !has_parts           ? ""
        : need.layer == 0    ? ", with the embedding,"
        : need.layer == last ? ", with the head,"
                             : "",
        needed, need.devices == 1 ? "a device" : fmt::format("each of {}", format_devices(at(need.devices))),
        format_bytes(Bytes(need.available_bytes)));
  }
  const std::string state =
      fmt::format("the state of {:.4g} B parameters{}", need.parameters / 1e9,
                  need.replicas > 1 ? fmt::format(" in {} replicas", need.replicas) : "");
  const std::string available = format_available(need, answer);
  if (need.state_bytes > need.available_bytes)
    return fmt::format("{} needs {} at {:.4g} bytes per parameter; {}", state,
                       format_bytes(Bytes(need.state_bytes)), need.state_bytes_per_parameter, available);
  return fmt::format("{} at {:.4g} bytes per parameter and the activations of one micro-batch need {}; {}",
                     state, need.state_bytes_per_parameter, needed, available);
}

/// That no plan fits the memory, why, and which changes would make one fit.
Notes out_of_memory_notes(const api::PlanAnswer& answer) {
  if (answer.fits()) return {};
  const auto& changes = answer.feasible_changes;
  Notes notes;
  const std::string smallest = "in the plan with the smallest deficit, " + format_memory_deficit(answer);
  if (answer.shortage)
    notes.push_back(
        fmt::format("no plan fits the memory of the devices: {}", format_shortage(*answer.shortage, answer)));
  else if (changes)
    notes.push_back(fmt::format("no plan that fits the memory of the devices was found; {}", smallest));
  else
    notes.push_back(fmt::format(
        "no plan that fits the memory of the devices was found before the search ended; {}", smallest));
  if (!changes) return notes;
  if (changes->empty()) notes.emplace_back("none of the changes that were tried makes a plan fit");
  for (const auto& change : *changes)
    notes.push_back("it would fit " + format_change(change, answer.problem));
  return notes;
}

Notes search_notes(const api::PlanAnswer& answer) {
  const api::SearchSummary& search = *answer.search;
  const std::vector<Device>& devices = answer.problem.topology->devices;
  Notes notes = stop_notes(search.stopped, "plan");
  if (!search.unpriced.empty())
    notes.push_back(
        fmt::format("{} without a price not used, {} first; set it in the topology: `price: 1.2 USD/h`",
                    format_devices(search.unpriced.size()), devices[at(search.unpriced.front())].id));
  if (!search.unusable.empty())
    notes.push_back(fmt::format("{} cannot be used, {} first: {}", format_devices(search.unusable.size()),
                                devices[at(search.unusable.front().first)].id,
                                search.unusable.front().second));
  if (!search.discarded.empty())
    notes.push_back(fmt::format("{} could not be evaluated, which is an internal error: {}",
                                format_count(std::ssize(search.discarded), "candidate plan"),
                                search.discarded.front()));
  append(simulation_notes(answer), notes);
  if (search.proves && !answer.is_proven())
    notes.emplace_back(
        "the plan is not proven optimal; --prove supports only small problems with iteration_barrier true, "
        "without --scenario");
  append(out_of_memory_notes(answer), notes);
  return notes;
}

/// Notes on a plan that was given.
Notes given_notes(const api::PlanAnswer& answer) {
  Notes notes = answer.reader_notes;
  append(undecided_notes(answer.problem.job, answer.plan.execution, answer.undecided), notes);
  append(batch_notes(answer.plan, answer.problem.job), notes);
  if (answer.simulation == api::SimulationStatus::out_of_memory)
    notes.push_back("the plan does not fit the memory of its devices: " + format_memory_deficit(answer));
  if (answer.simulation == api::SimulationStatus::failed)
    notes.push_back("the plan could not be simulated: " + answer.simulation_error);
  if (answer.simulation == api::SimulationStatus::interrupted)
    notes.emplace_back("interrupted before the plan was simulated");
  return notes;
}

/// A note for each scenario under which the plan completes no iteration or deadlocks.
Notes no_progress_notes(const std::vector<api::SimulatedTimes>& simulated) {
  Notes notes;
  for (const api::SimulatedTimes& it : simulated)
    if (std::isfinite(it.mean_s) && !std::isfinite(it.max_s))
      notes.push_back(
          fmt::format("simulated under scenario {}, the plan deadlocks before the horizon; its mean is "
                      "over the whole horizon",
                      it.scenario));
    else if (!std::isfinite(it.mean_s))
      notes.push_back(fmt::format("simulated under scenario {}, the plan completes no iteration{}",
                                  it.scenario, it.why_none.empty() ? "" : ": " + it.why_none));
  return notes;
}

Notes unfinished_notes(const api::UnfinishedParts& unfinished, bool has_advice) {
  Notes notes;
  if (unfinished.explanation) notes.emplace_back("there was not enough time to explain the plan");
  if (unfinished.target_times)
    notes.emplace_back("there was not enough time to simulate the plan in trainers");
  if (unfinished.advice)
    notes.emplace_back(has_advice ? "the advice is incomplete: the search was cut short, so the best plan "
                                    "so far is compared by estimates"
                                  : "interrupted before there was a plan to advise");
  return notes;
}

/// Notes on the shape of a plan by communication cost.
Notes shape_notes(const Job& job, const Placement& placement) {
  Notes notes;
  if (placement.stages() > layer_count(job.model))
    notes.push_back(fmt::format("{} stages for {} layers: some stages compute nothing", placement.stages(),
                                layer_count(job.model)));
  const int micro_batches = micro_batch_count(job);
  if (placement.replicas() > micro_batches)
    notes.push_back(fmt::format("{} pipelines for {} micro-batches: some pipelines compute nothing",
                                placement.replicas(), micro_batches));
  return notes;
}

bool is_split_evenly(const Plan& plan, int layers) {
  const auto& stages = plan.pipelines.front().stages;
  const int count = static_cast<int>(stages.size());
  for (int stage = 0; stage < count; ++stage)
    if (stages[at(stage)].layers != even_split(layers, count, stage)) return false;
  return true;
}

Notes comm_cost_notes(const api::PlanAnswer& answer) {
  const Job& job = answer.problem.job;
  Notes notes = answer.search ? stop_notes(answer.search->stopped, "plan") : answer.reader_notes;
  append(undecided_notes(job, job.execution, answer.undecided), notes);
  append(answer.search ? shape_notes(job, answer.comm_cost->placement) : batch_notes(answer.plan, job),
         notes);
  if (!answer.search && !job.comm_cost && !is_split_evenly(answer.plan, layer_count(job.model)))
    notes.emplace_back(
        "the bytes sent are estimated for an even split of the layers, which the plan's is not");
  return notes;
}

}  // namespace

std::string format_no_layout(const api::ChosenLayout& chosen, const Problem& problem) {
  std::vector<std::string> changes;
  for (const search::FeasibleChange& it : chosen.fitting_changes)
    changes.push_back(format_change(it, problem));
  return changes.empty() ? chosen.no_layout_reason
                         : fmt::format("{}; fits {}", chosen.no_layout_reason, fmt::join(changes, ", or "));
}

Notes notes_of(const api::PlanAnswer& answer) {
  if (answer.comm_cost) return comm_cost_notes(answer);
  Notes notes = LayerTimes(answer.problem, answer.plan.execution, stage_sizes(answer.plan))
                    .notes(pipeline_major(answer.plan));
  if (!answer.search && !answer.is_given) return notes;
  append(answer.search ? search_notes(answer) : given_notes(answer), notes);
  append(no_progress_notes(answer.simulated()), notes);
  if (answer.lower_bound && answer.lower_bound->value > answer.lower_bound->cost * (1 + 1e-9))
    notes.emplace_back("the lower bound exceeds the cost of the plan: internal error, please report it");
  append(unfinished_notes(answer.unfinished, answer.advice.has_value()), notes);
  return notes;
}

Notes front_notes(const api::ParetoFront& front, bool has_points) {
  Notes notes;
  for (const auto& [objective, why] : front.search.failures)
    notes.push_back(fmt::format("no plan found by {}: {}", name_of(objective), why));
  if (front.results.empty() && has_points)
    notes.emplace_back("the plans were not simulated: this front is based on estimates");
  append(stop_notes(front.search.stopped, "front"), notes);
  const auto late = std::count_if(front.results.begin(), front.results.end(),
                                  [](const api::FinalistResult& it) { return it.was_stopped; });
  if (late > 0)
    notes.push_back(fmt::format("{} could not be simulated within the time limit and {} not in the front",
                                format_count(late, "plan"), late == 1 ? "is" : "are"));
  return notes;
}

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

std::string format_undecided(const ExecutionConfig& used, const SettingSet& undecided) {
  std::vector<std::string> choices;
  for (const SettingTraits* it :
       settings_by_rank([](const auto& row) { return static_cast<int>(row.section); }))
    if (undecided[it->kind] && it->get_in_plan != nullptr)
      choices.push_back(fmt::format("{} {}", it->name, format_value(without_preset(it->get_in_plan(used)))));
  return fmt::format("{}", fmt::join(choices, ", "));
}

std::vector<std::string> undecided_notes(const Job& job, const ExecutionConfig& used,
                                         const SettingSet& undecided) {
  const std::string choices = format_undecided(used, undecided);
  if (choices.empty()) return {};
  return {fmt::format("neither the plan nor a search decides what job {} leaves open; used: {}", job.name,
                      choices)};
}

std::string format_search_end(const api::PlanAnswer& answer) {
  return fmt::format("{} after {}", format_stopped(answer.stopped()),
                     format_count(answer.search->evaluations, "evaluation"));
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

std::string format_changes(const std::vector<TargetChange>& changes) {
  std::vector<std::string> texts;
  for (const TargetChange& it : changes) texts.push_back(format_change(it));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace dtfm::io
