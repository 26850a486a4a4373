// Which links lie between two hosts: routes of pairs of hosts, or access links and the pipes between sites.
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

  /// False: there was one already.
  bool add_route(Pair hosts, Links links) { return routes_.emplace(hosts, std::move(links)).second; }
  bool add_pipe(Pair sites, Links links) { return pipes_.emplace(sites, std::move(links)).second; }
  bool add_access(int host, Access access) { return access_.emplace(host, access).second; }

  /// The route that was given; else up, the pipe between the sites, down. Within a site, the pipe may be
  /// missing. Nothing when there is no way.
  std::optional<Links> links_between(Pair hosts) const;

 private:
  std::map<Pair, Links> routes_, pipes_;
  std::map<int, Access> access_;
};

}  // namespace dtfm::io
