// Reads the entries of a topology's `links` and resolves their endpoints; link_rules.hpp decides which entry
// applies to which devices.
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "core/cluster/topology.hpp"
#include "core/io/readers/device_inventory.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

/// In ascending order of specificity.
enum class LinkLevel { any, site, host, device };

struct LinkEndpoint {
  LinkLevel level = LinkLevel::any;
  int index = -1;  // of the site, host or device
};

/// `within: SITE` means the same as `between: [SITE, SITE]` and is stored as such, with LinkScope::none.
enum class LinkScope { none, host, any_site };

struct LinkEntry {
  std::string where;
  int line = 0;
  LinkScope within = LinkScope::none;
  LinkEndpoint from, to;
  bool both_directions = true;
  /// Index into DeviceInventory::template_links, of a link that a kind of host brings along: `within` is
  /// LinkScope::host or any_site, and the senders are hosts with this index. −1: an entry of the file.
  int template_index = -1;
  Link link;

  /// Rank in the order of precedence that link_rules.hpp lists; the greatest wins.
  int specificity() const;
};

/// The delay of a link: the value of `latency` (one_way_count 1) or of `rtt` (one_way_count 2).
struct LatencyValue {
  YamlValue value;
  int one_way_count;
};
/// Throws Error unless the map has exactly one of the two keys.
LatencyValue read_latency(const YamlMap& map);

std::vector<LinkEntry> read_link_entries(const YamlValue& links, const DeviceInventory& inventory);
/// The links that the inventory's hosts bring along.
std::vector<LinkEntry> template_link_entries(const DeviceInventory& inventory);

}  // namespace dtfm::io
