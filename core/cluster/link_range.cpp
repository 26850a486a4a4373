#include "core/cluster/link_range.hpp"

#include <algorithm>

namespace dtfm {

void LinkRange::add(const Link& link) {
  min_latency = has_links ? std::min(min_latency, link.latency) : link.latency;
  min_bandwidth = has_links ? std::min(min_bandwidth, link.bandwidth) : link.bandwidth;
  max_latency = std::max(max_latency, link.latency);
  max_bandwidth = std::max(max_bandwidth, link.bandwidth);
  has_links = true;
}

}  // namespace dtfm
