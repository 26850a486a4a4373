#include "planner/io/readers/link_rules.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "planner/core/index.hpp"
#include "planner/io/readers/link_entry.hpp"
#include "planner/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

constexpr int no_pair = -1, no_entry = -2;        // in tables whose other values are indices of entries
constexpr std::int64_t most_steps = 500'000'000;  // of filling the tables: some seconds

/// Sets of devices that no entry tells apart.
struct Ports {
  std::vector<int> of_device;
  std::vector<std::vector<int>> of_site, of_host;  // ports with devices there, ascending
  std::vector<int> all;
  std::vector<int> only_host;  // of each port: the host where all its devices are, −1: there are several
};

void add_once(std::vector<int>& ports, int port) {
  const auto place = std::lower_bound(ports.begin(), ports.end(), port);
  if (place == ports.end() || *place != port) ports.insert(place, port);
}

Ports ports_of(const Fleet& fleet, const std::vector<LinkEntry>& entries) {
  std::vector<char> host_is_named(fleet.hosts.size()), device_is_named(fleet.devices.size());
  for (const LinkEntry& entry : entries)
    for (const LinkEnd& end : {entry.from, entry.to}) {
      if (end.level == LinkLevel::host) host_is_named[at(end.index)] = 1;
      if (end.level == LinkLevel::device) device_is_named[at(end.index)] = 1;
    }
  Ports ports{{},
              std::vector<std::vector<int>>(fleet.sites.size()),
              std::vector<std::vector<int>>(fleet.hosts.size()),
              {},
              {}};
  std::map<std::tuple<int, int, int>, int> numbers;
  for (std::size_t i = 0; i < fleet.devices.size(); ++i) {
    const Device& device = fleet.devices[i];
    const std::tuple key(device.site, host_is_named[at(device.host)] ? device.host : -1,
                         device_is_named[i] ? static_cast<int>(i) : -1);
    const auto [entry, is_new] = numbers.emplace(key, static_cast<int>(numbers.size()));
    const int port = entry->second;
    ports.of_device.push_back(port);
    add_once(ports.of_site[at(device.site)], port);
    add_once(ports.of_host[at(device.host)], port);
    if (is_new) {
      ports.all.push_back(port);
      ports.only_host.push_back(device.host);
    } else if (ports.only_host[at(port)] != device.host) {
      ports.only_host[at(port)] = -1;
    }
  }
  return ports;
}

class Resolver {
 public:
  Resolver(const Fleet& fleet, const std::vector<LinkEntry>& entries)
      : fleet_(fleet), entries_(entries), ports_(ports_of(fleet, entries)) {
    mark_pairs();
  }

  /// Best entries first: a pair that has one is left alone by all that are less specific.
  RuleLinks resolve(const YamlValue& links) {
    std::vector<int> order(entries_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return entries_[at(a)].rank() > entries_[at(b)].rank(); });
    for (const int entry : order) apply(entry);
    if ((table_.array() == no_entry).any() || (same_host_.array() == no_entry).any()) throw missing(links);
    RuleLinks result{{}, std::move(ports_.of_device), std::move(table_), std::move(same_host_)};
    for (const LinkEntry& entry : entries_) result.links.push_back(entry.link);
    check_capacities(result.table, result.port);
    check_capacities(result.same_host, result.port);
    return result;
  }

 private:
  void mark_pairs() {
    const auto size = static_cast<Eigen::Index>(ports_.all.size());
    table_ = Eigen::MatrixXi::Constant(size, size, no_entry);
    same_host_ = Eigen::MatrixXi::Constant(size, size, no_pair);
    for (const int p : ports_.all)
      for (const int q : ports_.all) {
        const int host = ports_.only_host[at(p)];
        if (host >= 0 && host == ports_.only_host[at(q)]) table_(p, q) = no_pair;
      }
    std::vector<std::vector<int>> devices_of_host(fleet_.hosts.size());
    for (std::size_t i = 0; i < fleet_.devices.size(); ++i)
      devices_of_host[at(fleet_.devices[i].host)].push_back(static_cast<int>(i));
    for (std::size_t host = 0; host < devices_of_host.size(); ++host)
      mark_host(devices_of_host[host], ports_.of_host[host]);
  }

  /// The ports which two devices of one host have.
  void mark_host(const std::vector<int>& devices, const std::vector<int>& ports) {
    std::map<int, int> count;
    for (const int device : devices) ++count[ports_.of_device[at(device)]];
    for (const int p : ports)
      for (const int q : ports)
        if (p != q || count[p] > 1) same_host_(p, q) = no_entry;
  }

  std::vector<int> ports_at(const LinkEnd& end) const {
    switch (end.level) {
      case LinkLevel::any:
        return ports_.all;
      case LinkLevel::site:
        return ports_.of_site[at(end.index)];
      case LinkLevel::host:
        return ports_.of_host[at(end.index)];
      case LinkLevel::device:
        return {ports_.of_device[at(end.index)]};
    }
    return {};
  }

  void apply(int entry) {
    const LinkEntry& rule = entries_[at(entry)];
    if (rule.within == LinkWithin::host) {
      for (const auto& ports : ports_.of_host) apply(entry, ports, ports, false);
    } else if (rule.within == LinkWithin::any_site) {
      for (const auto& ports : ports_.of_site) apply(entry, ports, ports, true);
    } else {
      const std::vector<int> from = ports_at(rule.from), to = ports_at(rule.to);
      apply(entry, from, to, true);
      if (rule.both_directions) apply(entry, to, from, true);
    }
  }

  void apply(int entry, const std::vector<int>& from, const std::vector<int>& to, bool between_hosts) {
    steps_ += static_cast<std::int64_t>(from.size()) * static_cast<std::int64_t>(to.size());
    if (steps_ > most_steps)
      throw Error(entries_[at(entry)].where,
                  "the entries of `links` match too many pairs; give them as `measured`");
    for (const int q : to)  // the tables lie in memory column by column
      for (const int p : from) {
        const int host = ports_.only_host[at(p)], other_host = ports_.only_host[at(q)];
        if (host == other_host || host < 0 || other_host < 0) set(same_host_(p, q), entry, p, q, true);
        if (between_hosts && (host != other_host || host < 0)) set(table_(p, q), entry, p, q, false);
      }
  }

  void set(int& cell, int entry, int p, int q, bool same_host) const {
    if (cell == no_entry) cell = entry;
    if (cell == no_pair || cell == entry) return;
    const LinkEntry &chosen = entries_[at(cell)], &other = entries_[at(entry)];
    if (chosen.rank() != other.rank()) return;
    const auto [first, second] = std::minmax(chosen.line, other.line);
    const std::string& where = chosen.line > other.line ? chosen.where : other.where;
    const auto [a, b] = example(p, q, same_host);
    throw Error(where, fmt::format("the entries of lines {} and {} are equally specific for {} → {}", first,
                                   second, fleet_.devices[at(a)].id, fleet_.devices[at(b)].id));
  }

  /// A capacity is that of a pair of sites: two different ones for one direction of it contradict each other.
  void check_capacities(const Eigen::MatrixXi& table, const std::vector<int>& port) const {
    if (std::none_of(entries_.begin(), entries_.end(), has_capacity)) return;
    std::vector<int> site(ports_.all.size());
    for (std::size_t i = 0; i < port.size(); ++i) site[at(port[i])] = fleet_.devices[i].site;
    std::map<std::pair<int, int>, int> first;  // entry with a capacity, by the sites
    for (int q = 0; q < table.cols(); ++q)
      for (int p = 0; p < table.rows(); ++p) {
        if (table(p, q) < 0 || !has_capacity(entries_[at(table(p, q))])) continue;
        const std::pair sites(site[at(p)], site[at(q)]);
        const int entry = first.emplace(sites, table(p, q)).first->second;
        check_same_capacity(entries_[at(entry)], entries_[at(table(p, q))], sites);
      }
  }

  static bool has_capacity(const LinkEntry& entry) { return entry.link.capacity < unlimited; }

  void check_same_capacity(const LinkEntry& one, const LinkEntry& other, std::pair<int, int> sites) const {
    if (one.link.capacity == other.link.capacity) return;
    const auto [first, second] = std::minmax(one.line, other.line);
    throw Error(
        one.line > other.line ? one.where : other.where,
        fmt::format("the entries of lines {} and {} give different capacities from {} to {}; a "
                    "`capacity` is shared by all flows from the one site to the other",
                    first, second, fleet_.sites[at(sites.first)].name, fleet_.sites[at(sites.second)].name));
  }

  /// The first two devices of these ports.
  std::pair<int, int> example(int p, int q, bool same_host) const {
    const int size = static_cast<int>(fleet_.devices.size());
    for (int a = 0; a < size; ++a)
      for (int b = 0; ports_.of_device[at(a)] == p && b < size; ++b)
        if (a != b && ports_.of_device[at(b)] == q &&
            same_host == (fleet_.devices[at(a)].host == fleet_.devices[at(b)].host))
          return {a, b};
    throw BrokenInvariant("a pair of ports without devices");
  }

  Error missing(const YamlValue& links) const {
    const int size = static_cast<int>(fleet_.devices.size());
    std::int64_t count = 0;
    std::string first;
    for (int a = 0; a < size; ++a)
      for (int b = 0; b < size; ++b) {
        const Device &from = fleet_.devices[at(a)], &to = fleet_.devices[at(b)];
        const auto& table = from.host == to.host ? same_host_ : table_;
        if (a == b || table(ports_.of_device[at(a)], ports_.of_device[at(b)]) != no_entry) continue;
        if (count++ == 0) first = fmt::format("{} → {}", from.id, to.id);
      }
    return links.value_error(fmt::format(
        "no entry is for {}{}", first, count == 1 ? "" : fmt::format(", nor for {} more pairs", count - 1)));
  }

  const Fleet& fleet_;
  const std::vector<LinkEntry>& entries_;
  Ports ports_;
  Eigen::MatrixXi table_, same_host_;
  std::int64_t steps_ = 0;
};

}  // namespace

RuleLinks read_link_rules(const YamlValue& links, const Fleet& fleet) {
  const std::vector<LinkEntry> entries = read_link_entries(links, fleet);
  return Resolver(fleet, entries).resolve(links);
}

}  // namespace dtfm::io
