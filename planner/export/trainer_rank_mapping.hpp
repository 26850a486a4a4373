// The rules by which trainers derive the role of a rank. They are implemented independently of assign_ranks,
// in order to check it.
#pragma once

#include <vector>

#include "planner/export/exporter.hpp"

namespace dtfm::exporter {

/// Parallel degrees and layer split as configured in the files of a trainer.
struct TrainerGrid {
  RankOrder order = RankOrder::stage_major;
  int tensor = 1, context = 1, data = 1, pipeline = 1;
  std::vector<int> layers = {};  // of each virtual stage, in model order; size: a multiple of `pipeline`
};

/// The rows of rank_table.json with the roles that the trainer's rule assigns to the ranks. Throws
/// BrokenInvariant if the number of ranks is not the product of the degrees.
std::vector<RankRow> map_ranks(const ExportFiles& files, const TrainerGrid& shape);

/// The rows of rank_table.json among `files`, unchanged.
std::vector<RankRow> read_table_rows(const ExportFiles& files);

}  // namespace dtfm::exporter
