// Reads a measured iteration from a timeline: Chrome trace event JSON, as train.py --trace (python/) and
// dtfm-sim --trace write it.
#pragma once

#include <string>
#include <string_view>

#include "core/cluster/topology.hpp"
#include "simulator/report/timeline.hpp"

namespace dtfm::io {

/// The timeline of the iteration of median length, in s since its first activity; the first iteration is left
/// out if there are others, because it includes warm-up. Activities are those with the number of the
/// iteration as an argument. Without such arguments, they are those that start between its beginning and its
/// end. A device is found by its id in the topology, with or without ":0" at the end. Throws Error, with its
/// position in `file`, if the text is not such a timeline, has no iterations, or names an unknown device.
sim::Timeline parse_measured_iteration(std::string_view text, const std::string& file,
                                       const Topology& topology);

}  // namespace dtfm::io
