// rank_table.json: the role of every rank, for people, for `diff`, and for scripts around any trainer.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/export/export_bundle.hpp"

namespace dtfm::exporter {

inline constexpr const char* rank_table_file = "rank_table.json";

/// A JSON array with one line per rank: {"rank":0,"host":"gc","gpu":1,"dp":0,"pp":0,"tp":0,"layers":[0,3],
/// "node_rank":0,"local_rank":0}. `layers` is a list of such pairs if the device has several virtual stages;
/// `address` is added if it differs from `host`, and `cp` with context parallelism. `node_rank` and
/// `local_rank` are those of torchrun's agents.
std::string rank_table_json(const ExportBundle& bundle);

/// One line of the table.
struct RankRow {
  std::string host, address;
  int gpu = 0, node_rank = 0, local_rank = 0;
  RankAssignment assignment;  // without the device

  friend bool operator==(const RankRow&, const RankRow&) = default;
};

/// The rows for a plan, indexed by rank.
std::vector<RankRow> rank_rows(const ExportBundle& bundle);
/// The rows in the text of a rank table. Throws Error at a position in `file` if it is malformed.
std::vector<RankRow> parse_rank_table(std::string_view text, const std::string& file);

}  // namespace dtfm::exporter
