#include "planner/io/pareto_json.hpp"

#include <nlohmann/json.hpp>

#include "core/io/text/json_format.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

constexpr const char* schema = "dtfm-pareto/1";

ordered_json cost_json(const api::ParetoPoint::Cost& cost) {
  return {{"iteration_time_s", cost.iteration_s},
          {"usd", cost.usd ? ordered_json(*cost.usd) : ordered_json(nullptr)}};
}

ordered_json point_json(const Topology& topology, const ParetoRecord::Point& point) {
  const auto& [costs, candidate, record] = point;
  ordered_json json = cost_json(costs.estimated);
  json["simulated"] = costs.simulated ? cost_json(*costs.simulated) : ordered_json(nullptr);
  json["devices"] = costs.devices;
  json["pipeline"] = depth(candidate.plan);
  json["data"] = candidate.plan.pipelines.size();
  json["tensor"] = candidate.plan.tensor;
  json["decisions"] = decisions_json(candidate.plan);
  json["decisions"].erase("tensor");
  for (const char* key : {"chunks", "flush"})
    if (json["decisions"][key] == 0) json["decisions"].erase(key);
  json["plan"] = plan_document(topology, api::simulated_problem(candidate).job, candidate.plan, record);
  return json;
}

}  // namespace

std::string pareto_json(const Topology& topology, const ParetoRecord& record) {
  ordered_json json = {{"schema", schema},
                       {"topology", {{"name", topology.name}, {"fingerprint", topology.fingerprint()}}},
                       {"points", ordered_json::array()}};
  for (const ParetoRecord::Point& point : record.points)
    json["points"].push_back(point_json(topology, point));
  json["search"] = {{"seed", record.search.seed},
                    {"evaluations", record.search.evaluations},
                    {"stopped", name_of(record.search.stopped)}};
  if (!record.warnings.empty()) json["warnings"] = record.warnings;
  json["version"] = record.version;
  return format_json(json);
}

bool is_pareto_prefix(const std::string& text) {
  constexpr std::size_t head = 100;  // the schema is the first key
  return text.substr(0, head).find("\"dtfm-pareto/") != std::string::npos;
}

}  // namespace dtfm::io
