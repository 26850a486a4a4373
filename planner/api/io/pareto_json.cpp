#include "planner/api/io/pareto_json.hpp"

#include <nlohmann/json.hpp>

#include "planner/io/text/json_format.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

constexpr const char* schema = "dtfm-pareto/1";

void add_cost(const ParetoPoint::Cost& cost, ordered_json& json) {
  json["iteration_time_s"] = cost.iteration_time_s;
  json["usd"] = cost.usd ? ordered_json(*cost.usd) : ordered_json(nullptr);
}

ordered_json point_json(const Topology& topology, const ParetoPoint& point) {
  ordered_json json = ordered_json::object();
  add_cost(point.estimated, json);
  json["simulated"] = nullptr;
  if (point.simulated) {
    json["simulated"] = ordered_json::object();
    add_cost(*point.simulated, json["simulated"]);
  }
  json["devices"] = point.devices;
  json["pipeline"] = depth(point.plan);
  json["data"] = point.plan.pipelines.size();
  json["tensor"] = point.plan.tensor;
  json["decisions"] = decisions_json(point.decisions);
  json["plan"] = plan_document(topology, point.job, point.plan, point.record);
  return json;
}

}  // namespace

std::string pareto_json(const Topology& topology, const ParetoRecord& record) {
  ordered_json json = {{"schema", schema},
                       {"topology", {{"name", topology.name}, {"fingerprint", topology.fingerprint()}}},
                       {"points", ordered_json::array()}};
  for (const ParetoPoint& point : record.points) json["points"].push_back(point_json(topology, point));
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
