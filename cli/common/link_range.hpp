// What the links of several pairs of devices offer, from the least to the most.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/core/topology.hpp"

namespace dtfm::cli {

struct LinkRange {
  Seconds min_latency, max_latency;
  BitsPerSecond min_bandwidth, max_bandwidth;
  bool has_links = false;  // a link was added

  void add(const Link& link);
};

/// Keys `latency_s` and `bandwidth_bps`, each [least, most].
nlohmann::ordered_json range_json(const LinkRange& range);

}  // namespace dtfm::cli
