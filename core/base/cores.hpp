// The cores of this machine that the process may use.
#pragma once

namespace dtfm {

/// All cores that are online, at least 1.
int online_cores();

/// Cores in the affinity mask of this process, which taskset, Slurm and the cpusets of containers restrict.
/// At least 1.
int allowed_cores();

}  // namespace dtfm
