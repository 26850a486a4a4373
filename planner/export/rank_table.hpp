// rank_table.json: who is who, for people, for `diff`, and for scripts around any trainer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/export/export_bundle.hpp"

namespace dtfm::exporter {

inline constexpr const char* rank_table_file = "rank_table.json";

/// A JSON array, a line a rank: {"rank":0,"host":"gc","gpu":1,"dp":0,"pp":0,"tp":0,"layers":[0,3],
/// "node_rank":0,"local_rank":0}. `layers` is a list of such pairs where a device has several virtual stages;
/// `address` follows where it is another word than `host`. Node and local rank are those of torchrun's
/// agents.
std::string rank_table_json(const ExportBundle& bundle);

/// What a line of the table says.
struct RankRow {
  std::string host, address;
  int gpu = 0, node_rank = 0, local_rank = 0;
  RankAssignment assignment;  // but for the device

  friend bool operator==(const RankRow&, const RankRow&) = default;
};

/// The rows of a plan.
std::vector<RankRow> rank_rows(const ExportBundle& bundle);
/// Those that a file says. Throws Error for what is no such table.
std::vector<RankRow> parse_rank_table(std::string_view text, const std::string& file);

}  // namespace dtfm::exporter
