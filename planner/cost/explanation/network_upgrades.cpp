#include "planner/cost/explanation/network_upgrades.hpp"

#include <map>
#include <set>

#include "core/base/index.hpp"

namespace dtfm::cost {
namespace {

/// Replaces the entries between link classes of `site` and of `other` by copies with `factor` times the
/// rates.
void scale_entries(RuleLinks& rules, const std::vector<int>& site_of_link_class, int site, int other,
                   double factor) {
  std::map<int, int> copies;
  Eigen::MatrixXi& table = rules.table;
  for (Eigen::Index from = 0; from < table.rows(); ++from)
    for (Eigen::Index to = 0; to < table.cols(); ++to) {
      const int a = site_of_link_class[static_cast<std::size_t>(from)],
                b = site_of_link_class[static_cast<std::size_t>(to)];
      int& entry = table(from, to);
      if (entry < 0 || !((a == site && b == other) || (a == other && b == site))) continue;
      const auto [copy, is_new] = copies.emplace(entry, static_cast<int>(rules.links.size()));
      if (is_new) {
        Link faster = rules.links[at(entry)];
        faster.bandwidth = factor * faster.bandwidth;
        faster.capacity = factor * faster.capacity;
        rules.links.push_back(faster);
      }
      entry = copy->second;
    }
}

}  // namespace

void scale_link(Topology& topology, int site, int other, double factor) {
  if (auto* rules = std::get_if<RuleLinks>(&topology.links)) {
    std::vector<int> site_of_link_class(static_cast<std::size_t>(rules->table.rows()), -1);
    for (std::size_t device = 0; device < topology.devices.size(); ++device)
      site_of_link_class[at(rules->link_class[device])] = topology.devices[device].site;
    scale_entries(*rules, site_of_link_class, site, other, factor);
    return;
  }
  Eigen::MatrixXd& bandwidth = std::get<MeasuredLinks>(topology.links).bandwidth;
  for (int from = 0; from < topology.size(); ++from)
    for (int to = 0; to < topology.size(); ++to) {
      const Device &a = topology.devices[at(from)], &b = topology.devices[at(to)];
      const bool is_between = (a.site == site && b.site == other) || (a.site == other && b.site == site);
      if (is_between && a.host != b.host) bandwidth(from, to) *= factor;
    }
}

void double_site_access(Topology& topology, int site) {
  Site& it = topology.sites[at(site)];
  it.uplink = 2 * it.uplink;
  it.downlink = 2 * it.downlink;
  for (Device& device : topology.devices) {
    if (device.site != site) continue;
    for (BitsPerSecond* rate : {&device.uplink, &device.downlink, &device.host_uplink, &device.host_downlink})
      *rate = 2 * *rate;
  }
}

std::vector<int> limited_sites(const Topology& topology, const std::vector<int>& devices) {
  std::set<int> sites;
  for (const int device : devices) {
    const Device& it = topology.devices[at(device)];
    const Site& site = topology.sites[at(it.site)];
    for (const BitsPerSecond rate :
         {site.uplink, site.downlink, it.uplink, it.downlink, it.host_uplink, it.host_downlink})
      if (rate < unlimited) sites.insert(it.site);
  }
  return {sites.begin(), sites.end()};
}

}  // namespace dtfm::cost
