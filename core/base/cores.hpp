// The cores of this machine that the process may use.
#pragma once

namespace dtfm {

/// All cores that are online, at least 1.
int online_cores();

/// Those on which this process may run: taskset, Slurm and containers with a set of CPUs restrict it. At
/// least 1.
int allowed_cores();

}  // namespace dtfm
