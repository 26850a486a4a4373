#include "planner/export/rank_table.hpp"

#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/io/text/json_reader.hpp"

namespace dtfm::exporter {
namespace {

constexpr int max_value = 1'000'000'000;

/// Sets node and local rank of each row. A node is a torchrun agent, which has one GPU or all GPUs of a
/// machine.
void number_nodes(const ExportBundle& bundle, std::vector<RankRow>& rows) {
  for (int rank = 0; rank < bundle.world_size(); ++rank) {
    const bool is_first = rank == 0 || bundle.launch.agents == AgentPer::gpu ||
                          rows[at(rank)].address != rows[at(rank - 1)].address;
    rows[at(rank)].node_rank = rank == 0 ? 0 : rows[at(rank - 1)].node_rank + (is_first ? 1 : 0);
    rows[at(rank)].local_rank = is_first ? 0 : rows[at(rank - 1)].local_rank + 1;
  }
}

nlohmann::ordered_json layers_json(const std::vector<std::pair<int, int>>& layers) {
  if (layers.size() == 1) return {layers.front().first, layers.front().second};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [first, last] : layers) list.push_back({first, last});
  return list;
}

std::pair<int, int> read_pair(const io::JsonCursor& cursor) {
  if (cursor.array_size("two layers") != 2) cursor.fail("expected two layers");
  return {cursor.at(0).as_int(0, max_value), cursor.at(1).as_int(0, max_value)};
}

std::vector<std::pair<int, int>> read_layers(const io::JsonCursor& cursor) {
  if (cursor.array_size("layers") == 0) cursor.fail("there are no layers");
  if (!cursor.at(0).is_array()) return {read_pair(cursor)};
  std::vector<std::pair<int, int>> layers;
  for (std::size_t i = 0; i < cursor.array_size("layers"); ++i) layers.push_back(read_pair(cursor.at(i)));
  return layers;
}

}  // namespace

std::vector<RankRow> rank_rows(const ExportBundle& bundle) {
  std::vector<RankRow> rows;
  for (int rank = 0; rank < bundle.world_size(); ++rank) {
    const GpuLocation& location = bundle.location(rank);
    RankAssignment assignment = bundle.assignments[at(rank)];
    assignment.device = 0;
    rows.push_back({location.host, location.address, location.gpu, 0, 0, std::move(assignment)});
  }
  number_nodes(bundle, rows);
  return rows;
}

std::string rank_table_json(const ExportBundle& bundle) {
  std::string text;
  int rank = 0;
  for (const RankRow& row : rank_rows(bundle)) {
    nlohmann::ordered_json json = {{"rank", rank++},
                                   {"host", row.host},
                                   {"gpu", row.gpu},
                                   {"dp", row.assignment.pipeline},
                                   {"pp", row.assignment.stage},
                                   {"tp", row.assignment.shard},
                                   {"layers", layers_json(row.assignment.layers)},
                                   {"node_rank", row.node_rank},
                                   {"local_rank", row.local_rank}};
    if (bundle.job.execution.context > 1) json["cp"] = row.assignment.context;
    if (row.address != row.host) json["address"] = row.address;
    text += (text.empty() ? "[" : ",\n ") + json.dump();
  }
  return text + "]\n";
}

std::vector<RankRow> parse_rank_table(std::string_view text, const std::string& file) {
  const nlohmann::json json = io::parse_json(text, file);
  const io::JsonCursor table(json, file);
  std::vector<RankRow> rows;
  for (std::size_t i = 0; i < table.array_size("ranks"); ++i) {
    const io::JsonCursor row = table.at(i);
    const auto number = [&](const char* key) { return row.required(key).as_int(0, max_value); };
    if (number("rank") != static_cast<int>(i)) row.fail("ranks are not in ascending order");
    const auto address = row.optional("address"), context = row.optional("cp");
    const std::string& host = row.required("host").as_string();
    rows.push_back(
        {host, address ? address->as_string() : host, number("gpu"), number("node_rank"),
         number("local_rank"),
         RankAssignment{0, number("dp"), number("pp"), number("tp"), read_layers(row.required("layers")),
                        context ? context->as_int(0, max_value) : 0}});
  }
  return rows;
}

}  // namespace dtfm::exporter
