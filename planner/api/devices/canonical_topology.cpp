#include "planner/api/devices/canonical_topology.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>
#include <utility>
#include <variant>

#include "core/base/index.hpp"
#include "planner/api/devices/sub_topology.hpp"

namespace dtfm::api {
namespace {

/// Shorter names first, so that `site/2` precedes `site/10`.
std::pair<std::size_t, std::string> name_key(const std::string& name) {
  return {name.size(), name};
}

/// Peak of matrix products in the fastest known precision of at least 16 bits; 0 if none is known.
double peak_of(const Topology& topology, const Device& device) {
  if (device.gpu < 0) return 0;
  const Gpu& gpu = topology.gpus[at(device.gpu)];
  double peak = 0;
  for (const auto& it : {gpu.peak, gpu.peak_tf32, gpu.peak_fp32})
    peak = std::max(peak, it.value_or(FlopsPerSecond()).value());
  return peak * device.speed;
}

/// The best of several links: with more, or faster, ones it is smaller.
struct LinkKey {
  double negative_bandwidth = 0, latency = std::numeric_limits<double>::infinity();
  friend auto operator<=>(const LinkKey&, const LinkKey&) = default;

  void add(const Topology& topology, int from, int to) {
    const Link link = topology.link(from, to);
    const int sender = topology.devices[at(from)].site, receiver = topology.devices[at(to)].site;
    BitsPerSecond bandwidth = std::min(link.bandwidth, link.capacity);
    if (sender != receiver)
      bandwidth =
          std::min({bandwidth, topology.sites[at(sender)].uplink, topology.sites[at(receiver)].downlink});
    negative_bandwidth = std::min(negative_bandwidth, -bandwidth.value());
    latency = std::min(latency, link.latency.value());
  }
};

/// The two directions between two devices, sites, ….
struct PairKey {
  LinkKey forth, back;
  friend auto operator<=>(const PairKey&, const PairKey&) = default;

  void add(const Topology& topology, int from, int to) {
    if (from == to) return;
    forth.add(topology, from, to);
    back.add(topology, to, from);
  }
};

/// Sort key of machines; their names break ties.
struct DeviceKey {
  std::vector<double> own;     // GPU and rates
  PairKey inside;              // to its host
  std::vector<PairKey> sites;  // to other hosts of each site, in their order
  friend auto operator<=>(const DeviceKey&, const DeviceKey&) = default;
};

class CanonicalOrder {
 public:
  explicit CanonicalOrder(const Topology& topology) : topology_(topology) {
    sites_.resize(topology.sites.size());
    for (int device = 0; device < topology.size(); ++device) add(device);
  }

  std::vector<int> order() const {
    const std::vector<int> sites = order_of_sites();
    std::vector<int> order;
    for (const int site : sites)
      for (const int device : order_in(site, sites)) order.push_back(device);
    return order;
  }

 private:
  struct SiteMembers {
    std::vector<int> devices, representatives;
    double peak = 0;
    std::size_t largest_host = 0;
  };

  void add(int device) {
    const Device& it = topology_.devices[at(device)];
    SiteMembers& site = sites_[at(it.site)];
    site.devices.push_back(device);
    std::vector<int>& host = hosts_[it.host];
    host.push_back(device);
    site.peak = std::max(site.peak, peak_of(topology_, it));
    site.largest_host = std::max(site.largest_host, host.size());
    if (is_representative(device)) site.representatives.push_back(device);
  }

  /// Whether its links to other hosts are not those of an earlier device. Of each link class, two hosts are
  /// needed, so that every device of it has a link to another host.
  bool is_representative(int device) {
    const auto* rules = std::get_if<RuleLinks>(&topology_.links);
    if (rules == nullptr) return true;
    const Device& it = topology_.devices[at(device)];
    std::vector<int>& hosts = hosts_of_class_[{it.site, rules->link_class[at(device)]}];
    if (hosts.size() == 2 || (hosts.size() == 1 && hosts.front() == it.host)) return false;
    hosts.push_back(it.host);
    return true;
  }

  PairKey between(int device, const std::vector<int>& others) const {
    PairKey key;
    for (const int other : others)
      if (topology_.devices[at(other)].host != topology_.devices[at(device)].host)
        key.add(topology_, device, other);
    return key;
  }

  PairKey between_sites(int from, int to) const {
    PairKey best;
    for (const int device : sites_[at(from)].representatives) {
      const PairKey its = between(device, sites_[at(to)].representatives);
      best.forth = std::min(best.forth, its.forth);
      best.back = std::min(best.back, its.back);
    }
    return best;
  }

  std::vector<int> order_of_sites() const {
    std::vector<int> left, order;
    for (std::size_t site = 0; site < sites_.size(); ++site)
      if (!sites_[site].devices.empty()) left.push_back(static_cast<int>(site));
    while (!left.empty()) {
      const auto key = [&](int site) {
        const SiteMembers& it = sites_[at(site)];
        const PairKey link = order.empty() ? PairKey() : between_sites(order.back(), site);
        return std::tuple(-it.peak, -static_cast<double>(it.largest_host), link,
                          -static_cast<double>(it.devices.size()), name_key(topology_.sites[at(site)].name));
      };
      const auto next =
          std::min_element(left.begin(), left.end(), [&](int a, int b) { return key(a) < key(b); });
      order.push_back(*next);
      left.erase(next);
    }
    return order;
  }

  DeviceKey device_key(int device, const std::vector<int>& sites) const {
    const Device& it = topology_.devices[at(device)];
    DeviceKey key;
    const double memory = it.gpu < 0 ? 0 : topology_.gpus[at(it.gpu)].memory.value();
    const double price = it.price ? it.price->value() : -1;
    key.own = {-peak_of(topology_, it),
               -memory,
               -it.host_uplink.value(),
               -it.host_downlink.value(),
               -it.uplink.value(),
               -it.downlink.value(),
               -it.speed,
               price};
    for (const int other : hosts_.at(it.host)) key.inside.add(topology_, device, other);
    for (const int site : sites) key.sites.push_back(between(device, sites_[at(site)].representatives));
    return key;
  }

  /// The devices of a site by the keys of their hosts, then by their own.
  std::vector<int> order_in(int site, const std::vector<int>& sites) const {
    using Name = std::pair<std::size_t, std::string>;
    using NamedKey = std::tuple<DeviceKey, std::string, Name>;  // with GPU
    std::map<int, NamedKey> keys;
    std::map<int, NamedKey> first_of_host;
    for (const int device : sites_[at(site)].devices) {
      const Device& it = topology_.devices[at(device)];
      NamedKey key(device_key(device, sites), it.gpu < 0 ? "" : topology_.gpus[at(it.gpu)].name,
                   name_key(it.id));
      const auto [first, is_new] = first_of_host.emplace(it.host, key);
      if (!is_new) first->second = std::min(first->second, key);
      keys.emplace(device, std::move(key));
    }
    const auto host_key = [&](int device) {
      const int host = topology_.devices[at(device)].host;
      const auto& [key, gpu, name] = first_of_host.at(host);
      return std::tuple(key.own.front(), -static_cast<double>(hosts_.at(host).size()),
                        std::tie(key, gpu, name));
    };
    std::vector<int> order = sites_[at(site)].devices;
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      if (topology_.devices[at(a)].host == topology_.devices[at(b)].host) return keys.at(a) < keys.at(b);
      return host_key(a) < host_key(b);
    });
    return order;
  }

  const Topology& topology_;
  std::vector<SiteMembers> sites_;
  std::map<int, std::vector<int>> hosts_;                           // devices by host
  std::map<std::pair<int, int>, std::vector<int>> hosts_of_class_;  // at most two, by site and link class
};

/// Numbers values in the order in which they are first asked for.
class Numbering {
 public:
  int of(int value) {
    const auto [it, is_new] = numbers_.emplace(value, static_cast<int>(values_.size()));
    if (is_new) values_.push_back(value);
    return it->second;
  }
  const std::vector<int>& values() const { return values_; }

 private:
  std::map<int, int> numbers_;
  std::vector<int> values_;
};

/// Moves the values with the given numbers to the front; the others follow by name.
template <class Named>
std::vector<Named> renumbered(const std::vector<Named>& all, Numbering numbering) {
  std::vector<int> others(all.size());
  for (std::size_t i = 0; i < all.size(); ++i) others[i] = static_cast<int>(i);
  std::sort(others.begin(), others.end(), [&](int a, int b) { return all[at(a)].name < all[at(b)].name; });
  for (const int it : others) numbering.of(it);
  std::vector<Named> result;
  for (const int it : numbering.values()) result.push_back(all[at(it)]);
  return result;
}

RuleLinks renumbered(const RuleLinks& rules) {
  RuleLinks result;
  Numbering classes, links;
  for (const int it : rules.link_class) result.link_class.push_back(classes.of(it));
  const auto table_of = [&](const Eigen::MatrixXi& table) {
    const auto size = static_cast<Eigen::Index>(classes.values().size());
    Eigen::MatrixXi own(size, size);
    for (Eigen::Index p = 0; p < size; ++p)
      for (Eigen::Index q = 0; q < size; ++q) {
        const int link = table(classes.values()[static_cast<std::size_t>(p)],
                               classes.values()[static_cast<std::size_t>(q)]);
        own(p, q) = link < 0 ? link : links.of(link);
      }
    return own;
  };
  result.table = table_of(rules.table);
  result.same_host = table_of(rules.same_host);
  for (const int it : links.values()) result.links.push_back(rules.links[at(it)]);
  return result;
}

}  // namespace

std::vector<int> canonical_order(const Topology& topology) {
  return CanonicalOrder(topology).order();
}

Topology canonical_topology(const Topology& topology) {
  Topology result = sub_topology(topology, canonical_order(topology)).topology;
  result.calibration = topology.calibration;
  Numbering sites, hosts, gpus;
  for (Device& it : result.devices) {
    it.site = sites.of(it.site);
    it.host = hosts.of(it.host);
    if (it.gpu >= 0) it.gpu = gpus.of(it.gpu);
  }
  result.sites = renumbered(topology.sites, std::move(sites));
  result.gpus = renumbered(topology.gpus, std::move(gpus));
  if (const auto* rules = std::get_if<RuleLinks>(&result.links)) result.links = renumbered(*rules);
  return result;
}

}  // namespace dtfm::api
