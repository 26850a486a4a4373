// Which device runs which rank, as launchers are told it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/io/readers/device_resolver.hpp"
#include "planner/io/text/input_errors.hpp"

namespace dtfm::io {

/// The device of each rank, nothing for one with a fault; no ranks where a line cannot be read. `text` is
/// UTF-8, # begins a comment. Either of
///   rank 0=gc:1 slot=0-15    a line a rank, in any order (Open MPI's rankfile; a slot is of CPU cores)
///   gc:1                     a line a rank, in the order of the ranks (as in Slurm's SLURM_HOSTFILE)
///   ga slots=2               so many ranks, in the order of the lines (a hostfile of mpirun or DeepSpeed)
/// A device is named by its id. The name of a host with several devices stands for the next of them: its
/// ranks take its devices in their order, as LOCAL_RANK counts.
///
/// Adds to `faults`, at file:line:column: a device or host that is unknown or used more often than it is
/// there, a rank that is there twice or missing, a line of neither form.
std::vector<std::optional<int>> read_ranks(std::string_view text, const std::string& file,
                                           DeviceResolver& resolver, InputErrors& errors);

}  // namespace dtfm::io
