// Finds the GPUs of hosts by running nvidia-smi on them, or by reading its saved outputs.
#pragma once

#include <string>
#include <vector>

#include "cli/topology/detect_options.hpp"
#include "core/base/stop.hpp"
#include "core/io/writers/detected_topology.hpp"

namespace dtfm::cli {

/// The command line that runs `words`, whose characters are plain, on a host.
std::vector<std::string> command_on_host(const HostArgument& host, const std::vector<std::string>& words);

/// The commands whose outputs `--from FOLDER` reads, one per line, for --help.
std::string saved_output_help();

/// What nvidia-smi says on each host, in the order of `hosts`. Throws one Error for all hosts that fail, and
/// WorkStopped. `quiet`: no progress on stderr.
std::vector<io::DetectedHost> detect_hosts(const std::vector<HostArgument>& hosts,
                                           const DetectOptions& options, bool quiet,
                                           const StopFunction& stop);

/// The hosts whose outputs are in the folder, by name.
std::vector<HostArgument> saved_hosts(const DetectOptions& options);

/// The nodes with GPUs that Slurm lists.
std::vector<io::DetectedHost> detect_slurm_nodes(const DetectOptions& options, const StopFunction& stop);

}  // namespace dtfm::cli
