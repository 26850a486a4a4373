// The range of latencies and bandwidths of several links.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "core/cluster/topology.hpp"

namespace dtfm::cli {

struct LinkRange {
  Seconds min_latency, max_latency;
  BitsPerSecond min_bandwidth, max_bandwidth;
  bool has_links = false;

  void add(const Link& link);
};

/// Returns the keys `latency_s` and `bandwidth_bps`, each [min, max].
nlohmann::ordered_json range_json(const LinkRange& range);

}  // namespace dtfm::cli
