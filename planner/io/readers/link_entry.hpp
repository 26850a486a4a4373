// One entry of a topology's `links`, its ends found, not yet weighed against the others (see link_rules.hpp).
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "planner/core/topology.hpp"
#include "planner/io/readers/device_inventory.hpp"
#include "planner/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// Ascending: the more specific is the greater.
enum class LinkLevel { any, site, host, device };

struct LinkEndpoint {
  LinkLevel level = LinkLevel::any;
  int index = -1;  // of the site, host or device
};

/// `within: SITE` is the same as `between: [SITE, SITE]` and written so.
enum class LinkScope { none, host, any_site };

struct LinkEntry {
  std::string where;
  int line = 0;
  LinkScope within = LinkScope::none;
  LinkEndpoint from, to;
  bool both_directions = true;
  Link link;

  /// Place in the order of link_rules.hpp; the greater wins.
  int specificity() const;
};

/// What a map says of the delay: `latency` is one way, `rtt` two.
struct LatencyValue {
  YamlValue value;
  int one_way_count;
};
/// Throws Error unless the map has exactly one of the two keys.
LatencyValue read_latency(const YamlMap& map);

std::vector<LinkEntry> read_link_entries(const YamlValue& links, const DeviceInventory& inventory);

}  // namespace dtfm::io
