// What one run of iperf3 says in its JSON (iperf3 -J, version 3.1 on).
#pragma once

#include <optional>
#include <string>

#include "planner/core/units.hpp"
#include "planner/io/text/json_reader.hpp"

namespace dtfm::io {

struct Iperf3Result {
  std::string sender, receiver;  // addresses, as connected
  int flows = 1;
  BitsPerSecond received_rate;               // of all flows together, over the whole test
  std::optional<BitsPerSecond> spread;  // standard deviation of the same over its intervals, at least two
  std::optional<Seconds> min_rtt;     // of all that were seen while it sent
};

/// Throws Error for a run that failed, of UDP, in both directions at once, or in which nothing arrived.
Iperf3Result parse_iperf3_result(const JsonCursor& root);

}  // namespace dtfm::io
