#include "planner/io/pareto_json.hpp"

#include "core/io/text/json_format.hpp"
#include "planner/api/pareto.hpp"
#include "planner/io/json_values.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/io/plan_notes.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

constexpr const char* schema = "dtfm-pareto/1";

ordered_json cost_json(const api::ParetoPoint::Cost& cost) {
  return {{"iteration_time_s", cost.iteration_s}, {"usd", number_or_null(cost.usd)}};
}

ordered_json point_json(const api::PlanAnswer& answer, const api::ParetoPoint& costs) {
  const api::ParetoFront& front = *answer.front;
  const search::PlanCandidate& candidate = front.search.candidates[costs.candidate];
  ordered_json json = cost_json(costs.estimated);
  json["simulated"] = costs.simulated ? cost_json(*costs.simulated) : ordered_json(nullptr);
  json["devices"] = costs.devices;
  json["pipeline"] = depth(candidate.plan);
  json["data"] = candidate.plan.pipelines.size();
  json["tensor"] = candidate.plan.tensor;
  json["decisions"] = decisions_json(candidate.plan);
  json["decisions"].erase("tensor");
  for (const char* key : {"recompute_layers", "chunks", "flush", "context", "expert"})
    if (json["decisions"][key] == 0) json["decisions"].erase(key);
  for (const char* key : {"context_exchange", "expert_dispatch"})
    if (json["decisions"][key] == "none") json["decisions"].erase(key);
  json["plan"] = plan_document(api::answer_of(
      candidate, answer.objective,
      front.results.empty() ? std::vector<api::SimulatedTimes>() : front.results[costs.candidate].simulated));
  return json;
}

}  // namespace

std::string pareto_json(const api::PlanAnswer& answer) {
  const Topology& topology = answer.problem.topology;
  const search::ParetoSearch& search = answer.front->search;
  ordered_json json = {{"schema", schema},
                       {"topology", {{"name", topology.name}, {"fingerprint", topology.fingerprint()}}},
                       {"points", ordered_json::array()}};
  for (const api::ParetoPoint& point : api::pareto_points(*answer.front))
    json["points"].push_back(point_json(answer, point));
  json["search"] = {{"seed", answer.search->seed},
                    {"evaluations", search.evaluations},
                    {"stopped", name_of(search.stopped)}};
  if (const auto notes = front_notes(*answer.front, !json["points"].empty()); !notes.empty())
    json["warnings"] = notes;
  json["version"] = DTFM_VERSION;
  return format_json(json);
}

bool is_pareto_prefix(const std::string& text) {
  constexpr std::size_t head = 100;  // the schema is the first key
  return text.substr(0, head).find("\"dtfm-pareto/") != std::string::npos;
}

}  // namespace dtfm::io
