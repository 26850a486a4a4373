// rank-env.sh, which srun and mpirun start once per rank: it sets RANK, WORLD_SIZE and the other environment
// variables that trainers read.
#pragma once

#include "planner/export/exporter.hpp"

namespace dtfm::exporter {

/// The script, with GPU and address of every rank.
ExportFile rank_env_file(const ExportBundle& bundle);

/// Sets GPU and address of each row, indexed by rank, to those in the script.
void read_rank_env(const ExportFiles& files, std::vector<RankRow>& rows);

}  // namespace dtfm::exporter
