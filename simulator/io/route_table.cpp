#include "simulator/io/route_table.hpp"

namespace dtfm::io {

std::optional<RouteTable::Links> RouteTable::links_between(Pair hosts) const {
  if (const auto route = routes_.find(hosts); route != routes_.end()) return route->second;
  const auto from = access_.find(hosts.first), to = access_.find(hosts.second);
  if (from == access_.end() || to == access_.end()) return {};
  const auto pipe = pipes_.find({from->second.site, to->second.site});
  if (pipe == pipes_.end() && from->second.site != to->second.site) return {};
  Links links = {from->second.uplink};
  if (pipe != pipes_.end()) links.insert(links.end(), pipe->second.begin(), pipe->second.end());
  links.push_back(to->second.downlink);
  return links;
}

}  // namespace dtfm::io
