// The result of one iperf3 run, from its JSON output (iperf3 -J, version 3.1 or later).
#pragma once

#include <optional>
#include <string>

#include "core/base/units.hpp"
#include "core/io/text/json_reader.hpp"

namespace dtfm::io {

struct Iperf3Result {
  std::string sender, receiver;  // addresses of the connection
  int flows = 1;
  BitsPerSecond received_rate;          // of all flows together, over the whole test
  std::optional<BitsPerSecond> spread;  // standard deviation of the rate over at least two intervals
  std::optional<Seconds> min_rtt;       // smallest round-trip time under load
};

/// Throws Error for a run that failed, used UDP, was bidirectional, or delivered no data.
Iperf3Result parse_iperf3_result(const JsonCursor& root);

}  // namespace dtfm::io
