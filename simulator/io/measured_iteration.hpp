// Reads a measured iteration from a timeline: Chrome trace event JSON, as train.py --trace (python/) and
// dtfm-sim --trace write it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/cluster/topology.hpp"
#include "simulator/lowering/activity.hpp"
#include "simulator/report/timeline.hpp"

namespace dtfm::io {

struct MeasuredActivity {
  enum class Row : unsigned char { compute, send, receive };

  int device = 0;  // index into Topology::devices
  Row row = Row::compute;
  sim::TaskLabel label;           // its devices are rank numbers of the trace
  double start_s = 0, end_s = 0;  // since the start of the iteration
};

struct MeasuredIteration {
  int number = 0;
  double length_s = 0;
  std::vector<MeasuredActivity> activities;  // by start
};

/// Activities are those with the number of the iteration as an argument. Without such arguments, they are
/// those that start between its beginning and its end.
///
/// The iteration of median length; the first one is left out if there are others, because it includes
/// warm-up. A device is found by its id in the topology, with or without ":0" at the end. Throws Error, with
/// its position in `file`, if the text is not such a timeline, has no iterations, or names an unknown device.
MeasuredIteration parse_measured_iteration(std::string_view text, const std::string& file,
                                           const Topology& topology);

/// The timeline of a measured iteration, which starts at 0.
sim::Timeline timeline_of(const MeasuredIteration& measured);

}  // namespace dtfm::io
