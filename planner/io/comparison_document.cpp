#include "planner/io/comparison_document.hpp"

#include <nlohmann/json.hpp>

#include "core/io/writers/rate_keys.hpp"
#include "planner/api/devices/device_sets.hpp"
#include "planner/io/json_values.hpp"
#include "planner/io/plan_notes.hpp"
#include "planner/io/simulation_document.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

double sent_bytes(const sim::SimReport& report) {
  double bytes = 0;
  for (const sim::LinkReport& it : report.links) bytes += it.bytes;
  return bytes;
}

ordered_json layout_json(const Problem& problem, const api::ChosenLayout& chosen) {
  ordered_json json = {{"tried", chosen.tried}, {"simulated", chosen.simulated}, {"fitting", chosen.fitting}};
  if (chosen.is_any()) json["description"] = api::format_shape(problem, chosen);
  if (chosen.swarm) {
    json["pipeline"] = chosen.swarm->stages;
    json["micro_batch"] = chosen.micro_batch;
  }
  if (!chosen.layout) return json;
  const Plan& plan = chosen.layout->plan;
  json["devices"] = ordered_json::array();
  for (const api::DeviceCount& it : api::device_counts(problem.topology, plan))
    json["devices"].push_back({{"site", it.site}, {"gpu", text_or_null(it.gpu)}, {"count", it.count}});
  json["tensor"] = plan.tensor;
  json["pipeline"] = depth(plan);
  json["data"] = plan.pipelines.size();
  json["micro_batch"] = chosen.layout->job.execution.micro_batch;
  json["schedule"] = name_of(plan.execution.schedule);
  json["sync_every"] = chosen.layout->sync_every;
  json["gradient_sync"] = name_of(plan.execution.gradient_sync);
  if (plan.execution.optimizer_sharding != OptimizerSharding::none)
    json["optimizer_sharding"] = name_of(plan.execution.optimizer_sharding);
  if (chosen.layout->skipped) json["skipped"] = *chosen.layout->skipped;
  if (chosen.layout->routing) json["greedy_paths"] = chosen.layout->routing->greedy;
  return json;
}

ordered_json run_json(const api::CompareRequest& request, const api::ComparedRun& run,
                      const sim::Scenario& scenario) {
  const auto& cost = run.cost_per_million_tokens;
  const std::string& why = run.failure;
  const ModelInput input = model_input(request.problem.job.model);
  ordered_json json = {
      {"scenario", text_or_null(scenario.name)},
      {"seconds_per_batch", positive_or_null(run.seconds_per_batch)},
      {"time_ratio", positive_or_null(run.time_ratio)},
      {rate_key(input), positive_or_null(run.tokens_per_s)},
      {"model_flops_per_s", positive_or_null(why.empty() ? run.report.model_flops_per_s : 0)},
      {cost_key(input), number_or_null(cost)},
      {"iterations", run.report.iterations.size()},
      {"length_s", run.report.length_s},
      {"sent_bytes", sent_bytes(run.report)},
      {"lost_work_s", run.report.lost_work_s},
      {"stopped", text_or_null(why.empty() ? run.report.stopped : why)}};
  if (run.report.verification)
    json["verification"] = verification_json(request.problem.topology, *run.report.verification);
  return json;
}

}  // namespace

ordered_json comparison_document(const api::CompareRequest& request, const api::Comparison& comparison) {
  const Problem& problem = request.problem;
  ordered_json json = {
      {"schema", "dtfm-compare/1"},
      {"topology", {{"name", problem.topology->name}, {"fingerprint", problem.topology->fingerprint()}}},
      {"job", problem.job.name},
      {"batch", problem.job.training.global_batch},
      {"seed", request.options.seed},
      {"stopped", comparison.is_interrupted ? ordered_json(interrupted_comparison) : ordered_json(nullptr)}};
  json["schemes"] = ordered_json::array();
  for (const api::ComparedScheme& it : comparison.schemes) {
    ordered_json row = {
        {"scheme", it.name},
        {"description", it.what},
        {"assumptions", it.assumes},
        {"layout", layout_json(problem, it.chosen)},
        {"no_layout_reason", text_or_null(it.chosen.is_any() ? "" : format_no_layout(it.chosen, problem))}};
    row["runs"] = ordered_json::array();
    for (std::size_t i = 0; i < it.runs.size(); ++i)
      row["runs"].push_back(run_json(request, it.runs[i], request.scenarios[i]));
    json["schemes"].push_back(std::move(row));
  }
  json["speedups"] = ordered_json::array();
  for (const api::Speedup& it : comparison.speedups)
    json["speedups"].push_back({{"scheme", it.scheme},
                                {"total", it.total},
                                {"placement", it.placement},
                                {"schedule", it.schedule},
                                {"collective", it.collective}});
  json["version"] = DTFM_VERSION;
  return json;
}

}  // namespace dtfm::io
