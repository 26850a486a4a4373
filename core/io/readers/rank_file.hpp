// Reads rank files and hostfiles, which tell launchers which device runs which rank.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/readers/device_resolver.hpp"
#include "core/io/text/input_errors.hpp"

namespace dtfm::io {

/// Returns the device of each rank, nullopt for ranks with an error, and an empty vector if a line is
/// malformed. `text` is UTF-8 and # begins a comment. Lines are of one of the forms
///   rank 0=gc:1 slot=0-15    one rank per line, in any order (Open MPI's rankfile; a slot is of CPU cores)
///   gc:1                     one rank per line, in rank order (as in Slurm's SLURM_HOSTFILE)
///   ga slots=2               several ranks per line, in rank order (hostfile of mpirun or DeepSpeed)
/// Devices are named by their ids. The name of a host with several devices stands for its next device: its
/// ranks take its devices in order, as LOCAL_RANK counts.
///
/// Adds to `errors`, at file:line:column: devices or hosts that are unknown or used too often, duplicate or
/// missing ranks, and malformed lines.
std::vector<std::optional<int>> read_ranks(std::string_view text, const std::string& file,
                                           DeviceResolver& resolver, InputErrors& errors);

}  // namespace dtfm::io
