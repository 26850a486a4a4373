#include "planner/export/trainer_rank_mapping.hpp"

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm::exporter {

std::vector<RankRow> read_table_rows(const ExportFiles& files) {
  return parse_rank_table(file_text(files, rank_table_file), rank_table_file);
}

std::vector<RankRow> map_ranks(const ExportFiles& files, const TrainerGrid& shape) {
  const int T = shape.tensor * shape.context, D = shape.data, P = shape.pipeline;
  std::vector<RankRow> rows = read_table_rows(files);
  DTFM_ASSERT(static_cast<long long>(rows.size()) == static_cast<long long>(T) * D * P);
  DTFM_ASSERT(P > 0 && shape.layers.size() % at(P) == 0);
  std::vector<int> first(shape.layers.size() + 1);
  for (std::size_t i = 0; i < shape.layers.size(); ++i) first[i + 1] = first[i] + shape.layers[i];
  for (int rank = 0; rank < T * D * P; ++rank) {
    RankAssignment& assignment = rows[at(rank)].assignment;
    const int group = rank / T;
    const bool is_stage_major = shape.order == RankOrder::stage_major;
    assignment = {0,
                  is_stage_major ? group % D : group / P,
                  is_stage_major ? group / D : group % P,
                  rank % shape.tensor,
                  {},
                  rank % T / shape.tensor};
    for (std::size_t i = at(assignment.stage); i < shape.layers.size(); i += at(P))
      assignment.layers.emplace_back(first[i], first[i + 1]);
  }
  return rows;
}

}  // namespace dtfm::exporter
