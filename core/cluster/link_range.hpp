// The range of latencies and bandwidths of several links.
#pragma once

#include "core/cluster/topology.hpp"

namespace dtfm {

struct LinkRange {
  Seconds min_latency, max_latency;
  BitsPerSecond min_bandwidth, max_bandwidth;
  bool has_links = false;

  void add(const Link& link);
};

}  // namespace dtfm
