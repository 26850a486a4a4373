#include "planner/io/simulation_document.hpp"

#include <numeric>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/writers/rate_keys.hpp"
#include "core/plan/layer_times.hpp"
#include "core/plan/shards.hpp"
#include "planner/io/json_values.hpp"
#include "planner/io/plan_notes.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

/// Null if the distribution has no values.
ordered_json distribution_json(const sim::Distribution& values, std::size_t count) {
  if (count == 0) return nullptr;
  return {{"mean", values.mean}, {"p50", values.p50}, {"p95", values.p95},
          {"p99", values.p99},   {"min", values.min}, {"max", values.max}};
}

template <class List, class Convert>
ordered_json list_json(const List& list, const Convert& convert) {
  ordered_json json = ordered_json::array();
  for (const auto& element : list) json.push_back(convert(element));
  return json;
}

ordered_json iteration_json(const sim::IterationReport& it) {
  return {{"start_s", it.start_s}, {"end_s", it.end_s}, {"duration_s", it.duration_s()}};
}

ordered_json device_json(const Topology& topology, const sim::DeviceReport& it) {
  return {{"device", topology.devices[at(it.device)].id},
          {"compute_s", it.compute_s},
          {"waiting_s", it.waiting_network_s + it.waiting_others_s},
          {"waiting_network_s", it.waiting_network_s},
          {"waiting_others_s", it.waiting_others_s},
          {"sending_s", it.sending_s},
          {"receiving_s", it.receiving_s},
          {"down_s", it.down_s},
          {"peak_memory_bytes", it.peak_memory_bytes},
          {"memory_bytes", positive_or_null(it.memory_bytes)}};
}

ordered_json peer_json(const Topology& topology, const sim::DeviceReport& it) {
  ordered_json json = device_json(topology, it);
  for (const char* unknown : {"sending_s", "receiving_s", "peak_memory_bytes"}) json[unknown] = nullptr;
  return json;
}

ordered_json link_json(const Topology& topology, const sim::LinkReport& it) {
  return {{"from", topology.sites[at(it.from)].name},
          {"to", topology.sites[at(it.to)].name},
          {"bytes", it.bytes},
          {"busy_s", it.busy_s}};
}

ordered_json event_json(const sim::EventReport& it) {
  return {{"date_s", it.date_s}, {"text", it.text}};
}

ordered_json step_json(const sim::CriticalStep& it) {
  return {{"text", it.text}, {"tasks", it.tasks}, {"start_s", it.start_s}, {"end_s", it.end_s}};
}

ordered_json useful_json(const sim::SimReport& report) {
  const sim::UsefulWork& it = *report.useful;
  return {{"samples", it.samples},
          {"samples_per_s", it.samples_per_s},
          {"optimal_samples", it.optimal_samples},
          {"share_of_optimal", it.share_of_optimal},
          {"rolled_back_iterations", report.rolled_back},
          {"checkpoints", report.checkpoints},
          {"usd", number_or_null(it.usd)},
          {"usd_egress", it.usd_egress}};
}

ordered_json fairness_json(const std::optional<sim::FairnessComparison>& it) {
  return it ? ordered_json{{"equal", it->equal_s}, {"rtt", it->rtt_s}} : ordered_json(nullptr);
}

ordered_json samples_json(const sim::SampleSummary& samples, ModelInput input) {
  return {{"runs", samples.runs},
          {"iteration_time_s", distribution_json(samples.iteration_time_s, samples.mean_s.size())},
          {rate_key(input), distribution_json(samples.tokens_per_s, samples.mean_s.size())},
          {"mean_iteration_time_s", samples.mean_s}};
}

/// The key `measured`.
ordered_json comparison_json(const Topology& topology, const sim::Timeline& measured,
                             const sim::TimelineComparison& comparison) {
  ordered_json json = {{"title", measured.title},
                       {"measured_s", comparison.measured_s},
                       {"simulated_s", comparison.simulated_s},
                       {"kinds", ordered_json::array()},
                       {"unmatched", comparison.unmatched},
                       {"tolerance", comparison.tolerance},
                       {"diverges_at", nullptr}};
  for (const sim::TimelineComparison::Kind& it : comparison.kinds)
    json["kinds"].push_back({{"kind", name_of(it.kind)},
                             {"count", it.count},
                             {"measured_s", it.measured_s},
                             {"simulated_s", it.simulated_s}});
  if (comparison.diverges_at) {
    const auto& [device, simulated, found] = *comparison.diverges_at;
    json["diverges_at"] = {{"device", topology.devices[at(device)].id},
                           {"kind", name_of(found.kind)},
                           {"micro_batch", found.micro_batch},
                           {"measured_start_s", found.start},
                           {"simulated_start_s", simulated.start}};
  }
  return json;
}

ordered_json stage_json(const sim::SwarmStage& it) {
  return {{"layers", {it.layers.first, it.layers.second}},
          {"peers", it.peers},
          {"steps", it.steps},
          {"accepted_samples", it.accepted},
          {"held_samples", it.held},
          {"lost_samples", it.lost},
          {"blocked_s", it.blocked_s}};
}

ordered_json swarm_json(const api::SimulateResult::Swarm& swarm, ModelInput input) {
  const sim::SwarmReport& report = swarm.report;
  ordered_json stages = ordered_json::array();
  for (const sim::SwarmStage& it : report.stages) stages.push_back(stage_json(it));
  return {{"stages", std::move(stages)},
          {cost_key(input), number_or_null(swarm.usd_per_million_tokens)},
          {"useful_samples", report.useful_samples},
          {"useful_samples_per_s", report.useful_samples_per_s},
          {"assigned_samples_per_s", report.assigned_samples_per_s},
          {"optimal_samples_per_s", report.optimal_samples_per_s},
          {"optimum_is_exact", report.optimum_is_exact},
          {"share_of_optimum", report.share_of_optimum},
          {"timeouts", report.timeouts},
          {"bans", report.bans},
          {"restarts", report.restarts},
          {"failures", report.failures},
          {"joins", report.joins},
          {"stage_switches", report.moves},
          {"contended_messages", report.shared_messages}};
}

/// Why no iteration was completed; empty if one was.
std::vector<std::string> no_progress_notes(const api::SimulateResult& result) {
  if (!result.report.iterations.empty()) return {};
  if (result.report.deadlocked) return {"no iteration was completed, and none can be"};  // `stopped` says why
  if (!result.report.stopped.empty()) return {"no iteration was completed"};
  return {fmt::format("no iteration was completed: the horizon, {:.6g} s, came before the end of the first",
                      result.scenario.horizon_s.value_or(0))};
}

/// Which layout of the scheme was simulated; empty for a plan.
std::vector<std::string> scheme_notes(const api::SimulateRequest& request,
                                      const api::SimulateResult& result) {
  if (!result.chosen) return {};
  const api::Scheme& scheme = api::scheme_named(*request.scheme);
  return {fmt::format("scheme {}: {}, the fastest of {} layouts that fit, of {}", scheme.name,
                      api::format_shape(result.problem, *result.chosen), result.chosen->fitting,
                      result.chosen->tried),
          fmt::format("scheme {} assumes: {}", scheme.name,
                      api::assumptions(scheme, request.options, request.problem.job))};
}

/// Notes on the times of layers on the devices that are used; a swarm uses all.
std::vector<std::string> layer_time_notes(const api::SimulateResult& result) {
  std::vector<int> devices(at(result.problem.topology->size()));
  std::iota(devices.begin(), devices.end(), 0);
  if (!result.is_swarm()) devices = pipeline_major(result.plan);
  return LayerTimes(result.problem, result.plan.execution,
                    result.is_swarm() ? std::vector{1} : stage_sizes(result.plan))
      .notes(devices);
}

}  // namespace

std::vector<std::string> simulation_notes(const api::SimulateRequest& request,
                                          const api::SimulateResult& result) {
  const Job& job = result.problem.job;
  std::vector<std::string> notes;
  const auto add = [&](const std::vector<std::string>& more) {
    notes.insert(notes.end(), more.begin(), more.end());
  };
  add(no_progress_notes(result));
  add(request.notes);
  add(scheme_notes(request, result));
  add(undecided_notes(job, job.execution, result.undecided));
  if (result.checkpoint_period) add({format_checkpoint_period(*result.checkpoint_period)});
  if (!result.plan.pipelines.empty()) add(batch_notes(result.plan, job));
  if (!result.plan.pipelines.empty() || result.is_swarm()) add(layer_time_notes(result));
  if (result.samples && !sim::is_random(result.scenario))
    add({fmt::format(
        "nothing in the scenario is random (there is no jitter): all samples are equal, and 1 of {} was run",
        *request.samples)});
  return notes;
}

ordered_json verification_json(const Topology& topology, const sim::VerificationReport& report) {
  ordered_json detected = ordered_json::array();
  for (const sim::CaughtPeer& peer : report.caught)
    detected.push_back({{"device", topology.devices[at(peer.device)].id},
                        {"date_s", peer.date_s},
                        {"calls", peer.calls},
                        {"samples", peer.samples}});
  return {{"verified_calls", report.verified},     {"unverified_calls", report.unverified},
          {"compute_s", report.compute_s},         {"sent_bytes", report.bytes},
          {"corrupt_calls", report.corrupt_calls}, {"detected", std::move(detected)}};
}

ordered_json simulation_document(const api::SimulateRequest& request, const api::SimulateResult& result) {
  const Topology& topology = result.problem.topology;
  const ModelInput input = model_input(result.problem.job.model);
  const sim::SimReport& report = result.report;
  const auto with_topology = [&](auto convert) {
    return [&topology, convert](const auto& element) { return convert(topology, element); };
  };
  ordered_json json = {
      {"schema", "dtfm-sim/1"},
      {"topology", {{"name", topology.name}, {"fingerprint", topology.fingerprint()}}},
      {"job", result.problem.job.name},
      {"scenario", text_or_null(result.scenario.name)},
      {"seed", request.options.seed},
      {"length_s", report.length_s},
      {"iterations", list_json(report.iterations, iteration_json)},
      {"iteration_time_s", distribution_json(report.iteration_time_s, report.iterations.size())},
      {rate_key(input), positive_or_null(report.tokens_per_s)},
      {"model_flops_per_s", positive_or_null(report.model_flops_per_s)},
      {"peak_flops_per_s", positive_or_null(report.peak_flops_per_s)},
      {"bubble", report.bubble},
      {"stopped", text_or_null(report.stopped)},
      {"notes", simulation_notes(request, result)}};
  if (result.interval) json["iteration_time_interval_s"] = interval_json(*result.interval);
  if (result.samples) json["samples"] = samples_json(result.samples->summary, input);
  json["fairness"] = {{"used", topology.fairness == Fairness::equal ? "equal" : "rtt"},
                      {"undisturbed_iteration_s", fairness_json(result.fairness)}};
  json["devices"] = list_json(report.devices, with_topology(result.swarm ? peer_json : device_json));
  json["links"] = list_json(report.links, with_topology(link_json));
  json["events"] = list_json(report.events, event_json);
  json["lost_work_s"] = report.lost_work_s;
  if (report.useful) json["useful_work"] = useful_json(report);
  if (result.swarm) json["swarm"] = swarm_json(*result.swarm, input);
  if (report.verification) json["verification"] = verification_json(topology, *report.verification);
  json["critical_path"] = list_json(report.critical_path, step_json);
  json["out_of_memory"] =
      list_json(report.out_of_memory, [&](int device) { return topology.devices[at(device)].id; });
  json["simulator"] = {{"tasks", report.tasks}, {"events", report.events_handled}, {"flows", report.flows}};
  json["version"] = DTFM_VERSION;
  if (result.comparison) json["measured"] = comparison_json(topology, *request.measured, *result.comparison);
  return json;
}

}  // namespace dtfm::io
