#include "cli/common/link_range.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace dtfm::cli {

void LinkRange::add(const Link& link) {
  min_latency = has_links ? std::min(min_latency, link.latency) : link.latency;
  min_bandwidth = has_links ? std::min(min_bandwidth, link.bandwidth) : link.bandwidth;
  max_latency = std::max(max_latency, link.latency);
  max_bandwidth = std::max(max_bandwidth, link.bandwidth);
  has_links = true;
}

nlohmann::ordered_json range_json(const LinkRange& range) {
  return {{"latency_s", {range.min_latency.value(), range.max_latency.value()}},
          {"bandwidth_bps", {range.min_bandwidth.value(), range.max_bandwidth.value()}}};
}

}  // namespace dtfm::cli
