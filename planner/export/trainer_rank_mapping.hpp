// The rules by which trainers know from a rank who it is, as they have them: written apart from assign_ranks,
// which they check.
#pragma once

#include <vector>

#include "planner/export/exporter.hpp"

namespace dtfm::exporter {

/// What a trainer's own files say of all ranks together.
struct TrainerGrid {
  RankOrder order = RankOrder::stage_major;
  int tensor = 1, data = 1, pipeline = 1;
  std::vector<int> layers;  // of each virtual stage, in the order of the model; a multiple of `pipeline`
};

/// The rows of rank_table.json with the seats that the trainer's rule gives to the ranks. Throws
/// BrokenInvariant where there are not as many ranks as seats.
std::vector<RankRow> map_ranks(const ExportFiles& files, const TrainerGrid& shape);

/// Of rank_table.json as it is.
std::vector<RankRow> read_table_rows(const ExportFiles& files);

}  // namespace dtfm::exporter
