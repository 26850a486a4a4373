// A topology as tables: sites × sites, and the devices of each site.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "cli/common/link_range.hpp"
#include "planner/core/topology.hpp"

namespace dtfm::cli {

inline constexpr std::size_t max_shown_sites = 64;

struct SiteTable {
  std::vector<int> sites;        // indices, in the order asked for
  std::vector<LinkRange> links;  // row after row: over the device pairs of two sites, from the row's
  const LinkRange& link(std::size_t row, std::size_t column) const {
    return links[row * sites.size() + column];
  }
};

/// Of the sites called `names`, or of all. Throws Error for an unknown or repeated name, and for too many.
SiteTable site_table(const Topology& topology, const std::vector<std::string>& names);

std::string format_site_table(const Topology& topology, const SiteTable& table);
nlohmann::ordered_json site_table_json(const Topology& topology, const SiteTable& table);

}  // namespace dtfm::cli
