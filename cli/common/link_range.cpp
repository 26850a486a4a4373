#include "cli/common/link_range.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace dtfm::cli {

void LinkRange::add(const Link& link) {
  least_latency = is_any ? std::min(least_latency, link.latency) : link.latency;
  least_bandwidth = is_any ? std::min(least_bandwidth, link.bandwidth) : link.bandwidth;
  most_latency = std::max(most_latency, link.latency);
  most_bandwidth = std::max(most_bandwidth, link.bandwidth);
  is_any = true;
}

nlohmann::ordered_json range_json(const LinkRange& range) {
  return {{"latency_s", {range.least_latency.value(), range.most_latency.value()}},
          {"bandwidth_bps", {range.least_bandwidth.value(), range.most_bandwidth.value()}}};
}

}  // namespace dtfm::cli
