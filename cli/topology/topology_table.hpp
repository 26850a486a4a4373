// A topology as tables: sites × sites, and the devices of each site.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/cluster/link_range.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm::cli {

inline constexpr std::size_t max_shown_sites = 64;

struct SiteTable {
  std::vector<int> sites;        // indices, in the requested order
  std::vector<LinkRange> links;  // row-major [from, to]: range over the device pairs of two sites
  const LinkRange& link(std::size_t row, std::size_t column) const {
    return links[row * sites.size() + column];
  }
};

/// The table of the sites `names`, or of all if empty. Throws Error for an unknown or repeated name, and for
/// more than max_shown_sites sites.
SiteTable site_table(const Topology& topology, const std::vector<std::string>& names);

/// Text tables of devices, latencies and bandwidths.
std::string format_site_table(const Topology& topology, const SiteTable& table);
/// The same as JSON, schema dtfm-topology-table/1.
nlohmann::ordered_json site_table_json(const Topology& topology, const SiteTable& table);

}  // namespace dtfm::cli
