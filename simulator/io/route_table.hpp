// The links between two hosts: explicit routes of pairs of hosts, or access links and pipes between sites.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace dtfm::io {

class RouteTable {
 public:
  using Links = std::vector<int>;
  using Pair = std::pair<int, int>;  // source, destination
  struct Access {
    int site, uplink, downlink;
  };

  /// Like the other `add_…` functions, returns false if there already was an entry.
  bool add_route(Pair hosts, Links links) { return routes_.emplace(hosts, std::move(links)).second; }
  bool add_pipe(Pair sites, Links links) { return pipes_.emplace(sites, std::move(links)).second; }
  bool add_access(int host, Access access) { return access_.emplace(host, access).second; }

  /// The explicit route, or else uplink, pipe between the sites, and downlink; within a site the pipe may be
  /// missing. Empty if the hosts are not connected.
  std::optional<Links> links_between(Pair hosts) const;

 private:
  std::map<Pair, Links> routes_, pipes_;
  std::map<int, Access> access_;
};

}  // namespace dtfm::io
