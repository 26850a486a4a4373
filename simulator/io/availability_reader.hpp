// Reads availability traces in CSV: recordings of when machines, such as spot instances, were available.
#pragma once

#include <string>
#include <vector>

#include "core/io/text/units.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::io {

struct AvailabilityFormat {
  bool has_counts = false;   // lines are `time, alive`; otherwise `time, add | remove, node`
  Unit time;                 // of the first column
  std::vector<int> devices;  // the devices that the trace covers, in order
};

/// Returns the events of the devices of `format`, in order of time. Before the first line no device is
/// available.
///   time, add | remove, node   an added node gets the first unavailable device; a node that finds none
///                              waits, and the one that has waited longest gets the next free device
///   time, alive                the first `alive` devices are available (at most all): the last one leaves
///                              first, the first missing one joins first
/// Lines of equal time apply one after the other; those of time 0 give the state at the start. A first line
/// without numbers is a header. Throws Error with file:line:column for a file without lines, decreasing
/// times, a value that is missing, negative or not a number, a node added while present, and a node removed
/// while absent.
std::vector<sim::DeviceEvent> parse_availability(std::string text, const std::string& file,
                                                 const AvailabilityFormat& format);

}  // namespace dtfm::io
