#include "planner/export/closed_form.hpp"

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm::exporter {

std::vector<RankRow> table_rows(const ExportFiles& files) {
  return parse_rank_table(text_of(files, rank_table_file), rank_table_file);
}

std::vector<RankRow> rows_by_rule(const ExportFiles& files, const TrainerShape& shape) {
  const int T = shape.tensor, D = shape.data, P = shape.pipeline;
  std::vector<RankRow> rows = table_rows(files);
  DTFM_ASSERT(static_cast<long long>(rows.size()) == static_cast<long long>(T) * D * P);
  DTFM_ASSERT(P > 0 && shape.layers.size() % at(P) == 0);
  std::vector<int> first(shape.layers.size() + 1);
  for (std::size_t i = 0; i < shape.layers.size(); ++i) first[i + 1] = first[i] + shape.layers[i];
  for (int rank = 0; rank < T * D * P; ++rank) {
    Seat& seat = rows[at(rank)].seat;
    const int block = rank / T;
    const bool is_stage_major = shape.order == RankOrder::stage_major;
    seat = {0, is_stage_major ? block % D : block / P, is_stage_major ? block / D : block % P, rank % T, {}};
    for (std::size_t i = at(seat.stage); i < shape.layers.size(); i += at(P))
      seat.layers.emplace_back(first[i], first[i + 1]);
  }
  return rows;
}

}  // namespace dtfm::exporter
