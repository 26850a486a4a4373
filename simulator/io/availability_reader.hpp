// Which machines were there, as recorded of a fleet of spot instances, in CSV.
#pragma once

#include <string>
#include <vector>

#include "planner/io/text/units.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::io {

struct AvailabilityFormat {
  bool has_counts = false;       // time, alive; else time, add | remove, node
  Unit time;                 // of the first column
  std::vector<int> devices;  // that the recording is about, in order
};

/// What happens to the devices of `format`, by date. Before the first line none is there.
///   time, add | remove, node   a node that comes takes the first device that is not there; one that finds
///                              none waits, and the one that waits for longest takes the next that is free
///   time, alive                of the devices the first so many are there (at most all): the last leave
///                              first, the first that is missing joins first
/// Lines of one time count one after the other; those of time 0 say who is there at the start. A first line
/// of words is a header. Throws Error with file:line:column: no lines, time going back, a value that is
/// missing, negative or no number, a node that comes when it is there or goes when it is not.
std::vector<sim::DeviceEvent> parse_availability(std::string text, const std::string& file,
                                            const AvailabilityFormat& format);

}  // namespace dtfm::io
