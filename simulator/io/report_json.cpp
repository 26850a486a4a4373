#include "simulator/io/report_json.hpp"

#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/io/writers/rate_keys.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

/// Null if the distribution has no values.
ordered_json distribution_json(const sim::Distribution& values, std::size_t count) {
  if (count == 0) return nullptr;
  return {{"mean", values.mean}, {"p50", values.p50}, {"p95", values.p95},
          {"p99", values.p99},   {"min", values.min}, {"max", values.max}};
}

/// For numbers whose value 0 means unknown.
ordered_json positive_or_null(double value) {
  return value > 0 ? ordered_json(value) : ordered_json(nullptr);
}

ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
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
          {"usd", it.usd ? ordered_json(*it.usd) : ordered_json(nullptr)},
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

}  // namespace

ordered_json sim_document(const Topology& topology, const sim::SimReport& report, const SimRecord& record) {
  const auto with_topology = [&](auto convert) {
    return [&topology, convert](const auto& element) { return convert(topology, element); };
  };
  ordered_json json = {
      {"schema", "dtfm-sim/1"},
      {"topology", {{"name", topology.name}, {"fingerprint", topology.fingerprint()}}},
      {"job", record.job},
      {"scenario", text_or_null(record.scenario)},
      {"seed", record.seed},
      {"length_s", report.length_s},
      {"iterations", list_json(report.iterations, iteration_json)},
      {"iteration_time_s", distribution_json(report.iteration_time_s, report.iterations.size())},
      {rate_key(record.input), positive_or_null(report.tokens_per_s)},
      {"model_flops_per_s", positive_or_null(report.model_flops_per_s)},
      {"peak_flops_per_s", positive_or_null(report.peak_flops_per_s)},
      {"bubble", report.bubble},
      {"stopped", text_or_null(report.stopped)},
      {"notes", record.notes}};
  if (record.interval)
    json["iteration_time_interval_s"] = {{"low", record.interval->low_s},
                                         {"high", record.interval->high_s},
                                         {"level", record.interval->level},
                                         {"source", record.interval->source}};
  if (record.samples) json["samples"] = samples_json(*record.samples, record.input);
  json["fairness"] = {{"used", topology.fairness == Fairness::equal ? "equal" : "rtt"},
                      {"undisturbed_iteration_s", fairness_json(record.fairness)}};
  json["devices"] = list_json(report.devices, with_topology(record.swarm ? peer_json : device_json));
  json["links"] = list_json(report.links, with_topology(link_json));
  json["events"] = list_json(report.events, event_json);
  json["lost_work_s"] = report.lost_work_s;
  if (report.useful) json["useful_work"] = useful_json(report);
  if (record.swarm) json["swarm"] = swarm_json(*record.swarm, record.input);
  if (report.verification) json["verification"] = verification_json(topology, *report.verification);
  json["critical_path"] = list_json(report.critical_path, step_json);
  json["out_of_memory"] =
      list_json(report.out_of_memory, [&](int device) { return topology.devices[at(device)].id; });
  json["simulator"] = {{"tasks", report.tasks}, {"events", report.events_handled}, {"flows", report.flows}};
  json["version"] = record.version;
  return json;
}

}  // namespace dtfm::io
