// Measures the network between hosts with scripts/measure.sh, which is compiled in, and the links between the
// GPUs of a host with nccl-tests.
#pragma once

#include <vector>

#include "cli/topology/detect_options.hpp"
#include "core/base/stop.hpp"
#include "core/io/writers/detected_topology.hpp"

namespace dtfm::cli {

/// Throws Error, before anything is measured, for hosts that measure.sh cannot measure.
void check_measurable(const std::vector<HostArgument>& hosts);

/// The links between all pairs of hosts. Throws Error if one could not be measured, and WorkStopped.
io::HostLinkMap measure_between_hosts(const std::vector<HostArgument>& hosts, const DetectOptions& options,
                                      bool quiet, const StopFunction& stop);

/// Sets DetectedHost::within of hosts that have several GPUs and all_reduce_perf on PATH; prints a note about
/// the others unless `quiet`.
void measure_within_hosts(const std::vector<HostArgument>& arguments, const DetectOptions& options,
                          bool quiet, const StopFunction& stop, std::vector<io::DetectedHost>& hosts);

}  // namespace dtfm::cli
