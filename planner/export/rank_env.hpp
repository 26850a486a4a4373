// rank-env.sh, which srun and mpirun start once a rank: it sets what trainers read of their rank.
#pragma once

#include "planner/export/exporter.hpp"

namespace dtfm::exporter {

ExportFile rank_env_file(const ExportBundle& bundle);

/// The GPU of each rank as the script has it, and the machine that it expects, put into `rows`.
void read_rank_env(const ExportFiles& files, std::vector<RankRow>& rows);

}  // namespace dtfm::exporter
