#include "core/io/readers/link_rules.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/readers/link_entry.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

constexpr int no_such_pair = -1, unmatched = -2;  // in tables whose other values are indices of entries
constexpr std::int64_t max_steps = 500'000'000;   // of filling the tables, which takes some seconds

/// Classes of devices that no entry distinguishes.
struct LinkClasses {
  std::vector<int> class_of_device;
  std::vector<std::vector<int>> classes_of_site, classes_of_host;  // classes of the devices there, ascending
  std::vector<int> all;
  std::vector<int> single_host;  // by class: the host of all its devices, or −1 if they are on several hosts
  std::vector<int> template_index;  // by class: that of the hosts of its devices, as in DeviceInventory
};

void insert_unique(std::vector<int>& link_classes, int link_class) {
  const auto insert_at = std::lower_bound(link_classes.begin(), link_classes.end(), link_class);
  if (insert_at == link_classes.end() || *insert_at != link_class) link_classes.insert(insert_at, link_class);
}

LinkClasses make_link_classes(const DeviceInventory& inventory, const std::vector<LinkEntry>& entries) {
  std::vector<char> host_is_named(inventory.hosts.size()), device_is_named(inventory.devices.size());
  for (const LinkEntry& entry : entries)
    for (const LinkEndpoint& end : {entry.from, entry.to}) {
      if (end.level == LinkLevel::host) host_is_named[at(end.index)] = 1;
      if (end.level == LinkLevel::device) device_is_named[at(end.index)] = 1;
    }
  LinkClasses link_classes{{},
                           std::vector<std::vector<int>>(inventory.sites.size()),
                           std::vector<std::vector<int>>(inventory.hosts.size()),
                           {},
                           {},
                           {}};
  std::map<std::tuple<int, int, int, int>, int> class_of_key;
  for (std::size_t i = 0; i < inventory.devices.size(); ++i) {
    const Device& device = inventory.devices[i];
    const int template_index = inventory.template_of_host[at(device.host)];
    const std::tuple key(device.site, host_is_named[at(device.host)] ? device.host : -1,
                         device_is_named[i] ? static_cast<int>(i) : -1, template_index);
    const auto [entry, is_new] = class_of_key.emplace(key, static_cast<int>(class_of_key.size()));
    const int link_class = entry->second;
    link_classes.class_of_device.push_back(link_class);
    insert_unique(link_classes.classes_of_site[at(device.site)], link_class);
    insert_unique(link_classes.classes_of_host[at(device.host)], link_class);
    if (is_new) {
      link_classes.all.push_back(link_class);
      link_classes.single_host.push_back(device.host);
      link_classes.template_index.push_back(template_index);
    } else if (link_classes.single_host[at(link_class)] != device.host) {
      link_classes.single_host[at(link_class)] = -1;
    }
  }
  return link_classes;
}

class LinkRuleResolver {
 public:
  LinkRuleResolver(const DeviceInventory& inventory, const std::vector<LinkEntry>& entries)
      : inventory_(inventory), entries_(entries), link_classes_(make_link_classes(inventory, entries)) {
    mark_pairs();
  }

  /// Applies entries in descending order of specificity; less specific ones do not change pairs that have an
  /// entry. `links` are those of the file.
  RuleLinks resolve(const YamlMap& topology, const std::optional<YamlValue>& links) {
    std::vector<int> order(entries_.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return entries_[at(a)].specificity() > entries_[at(b)].specificity();
    });
    for (const int entry : order) apply(entry);
    if ((table_.array() == unmatched).any() || (same_host_.array() == unmatched).any())
      throw links ? missing_entry_error(*links) : topology.error("missing key `links` or `measured`");
    RuleLinks result{{}, std::move(link_classes_.class_of_device), std::move(table_), std::move(same_host_)};
    check_capacities(result.table, result.link_class);
    check_capacities(result.same_host, result.link_class);
    add_links(result);
    return result;
  }

 private:
  void mark_pairs() {
    const auto size = static_cast<Eigen::Index>(link_classes_.all.size());
    table_ = Eigen::MatrixXi::Constant(size, size, unmatched);
    same_host_ = Eigen::MatrixXi::Constant(size, size, no_such_pair);
    for (const int p : link_classes_.all)
      for (const int q : link_classes_.all) {
        const int host = link_classes_.single_host[at(p)];
        if (host >= 0 && host == link_classes_.single_host[at(q)]) table_(p, q) = no_such_pair;
      }
    std::vector<std::vector<int>> devices_of_host(inventory_.hosts.size());
    for (std::size_t i = 0; i < inventory_.devices.size(); ++i)
      devices_of_host[at(inventory_.devices[i].host)].push_back(static_cast<int>(i));
    for (std::size_t host = 0; host < devices_of_host.size(); ++host)
      mark_host(devices_of_host[host], link_classes_.classes_of_host[host]);
  }

  /// Marks the pairs of classes that two different devices of one host have.
  void mark_host(const std::vector<int>& devices, const std::vector<int>& link_classes) {
    std::map<int, int> count;
    for (const int device : devices) ++count[link_classes_.class_of_device[at(device)]];
    for (const int p : link_classes)
      for (const int q : link_classes)
        if (p != q || count[p] > 1) same_host_(p, q) = unmatched;
  }

  std::vector<int> link_classes_at(const LinkEndpoint& end) const {
    switch (end.level) {
      case LinkLevel::any:
        return link_classes_.all;
      case LinkLevel::site:
        return link_classes_.classes_of_site[at(end.index)];
      case LinkLevel::host:
        return link_classes_.classes_of_host[at(end.index)];
      case LinkLevel::device:
        return {link_classes_.class_of_device[at(end.index)]};
    }
    return {};
  }

  void apply(int entry) {
    const LinkEntry& rule = entries_[at(entry)];
    if (rule.template_index >= 0) {
      apply_template(entry);
    } else if (rule.within == LinkScope::host) {
      for (const auto& link_classes : link_classes_.classes_of_host)
        apply(entry, link_classes, link_classes, false);
    } else if (rule.within == LinkScope::any_site) {
      for (const auto& link_classes : link_classes_.classes_of_site)
        apply(entry, link_classes, link_classes, true);
    } else {
      const std::vector<int> from = link_classes_at(rule.from), to = link_classes_at(rule.to);
      apply(entry, from, to, true);
      if (rule.both_directions) apply(entry, to, from, true);
    }
  }

  /// Applies to the pairs of a site whose sender has this template, and whose receiver has any, or is on the
  /// same host.
  void apply_template(int entry) {
    const LinkEntry& rule = entries_[at(entry)];
    const bool between_hosts = rule.within != LinkScope::host;
    for (const std::vector<int>& link_classes : link_classes_.classes_of_site) {
      std::vector<int> from, with_template;
      for (const int p : link_classes) {
        const int template_index = link_classes_.template_index[at(p)];
        if (template_index == rule.template_index) from.push_back(p);
        if (template_index >= 0) with_template.push_back(p);
      }
      apply(entry, from, between_hosts ? with_template : from, between_hosts);
    }
  }

  void apply(int entry, const std::vector<int>& from, const std::vector<int>& to, bool between_hosts) {
    steps_ += static_cast<std::int64_t>(from.size()) * static_cast<std::int64_t>(to.size());
    if (steps_ > max_steps)
      throw Error(entries_[at(entry)].where,
                  "the entries of `links` match too many pairs; give them as `measured`");
    for (const int q : to)  // the tables are stored in column-major order
      for (const int p : from) {
        const int host = link_classes_.single_host[at(p)], other_host = link_classes_.single_host[at(q)];
        if (host == other_host || host < 0 || other_host < 0) set(same_host_(p, q), entry, p, q, true);
        if (between_hosts && (host != other_host || host < 0)) set(table_(p, q), entry, p, q, false);
      }
  }

  void set(int& cell, int entry, int p, int q, bool same_host) const {
    if (cell == unmatched) cell = entry;
    if (cell == no_such_pair || cell == entry) return;
    const LinkEntry &chosen = entries_[at(cell)], &other = entries_[at(entry)];
    if (chosen.specificity() != other.specificity()) return;
    const auto [first, second] = std::minmax(chosen.line, other.line);
    const std::string& where = chosen.line > other.line ? chosen.where : other.where;
    const auto [a, b] = example_pair(p, q, same_host);
    throw Error(where, fmt::format("the entries of lines {} and {} are equally specific for {} → {}", first,
                                   second, inventory_.devices[at(a)].id, inventory_.devices[at(b)].id));
  }

  /// Adds the links of all entries of the file, and those of templates that a pair of devices uses.
  void add_links(RuleLinks& result) const {
    std::vector<char> is_used(entries_.size());
    std::vector<int> index_of_entry;
    const std::array<Eigen::MatrixXi*, 2> tables{&result.table, &result.same_host};
    for (const Eigen::MatrixXi* table : tables)
      for (const int entry : table->reshaped())
        if (entry >= 0) is_used[at(entry)] = 1;
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      index_of_entry.push_back(static_cast<int>(result.links.size()));
      if (entries_[i].template_index < 0 || is_used[i] != 0) result.links.push_back(entries_[i].link);
    }
    for (Eigen::MatrixXi* table : tables)
      for (int& entry : table->reshaped())
        if (entry >= 0) entry = index_of_entry[at(entry)];
  }

  /// A capacity belongs to a pair of sites, so two different ones for the same direction contradict each
  /// other.
  void check_capacities(const Eigen::MatrixXi& table, const std::vector<int>& link_class) const {
    if (std::none_of(entries_.begin(), entries_.end(), has_capacity)) return;
    std::vector<int> site(link_classes_.all.size());
    for (std::size_t i = 0; i < link_class.size(); ++i) site[at(link_class[i])] = inventory_.devices[i].site;
    std::map<std::pair<int, int>, int> first;  // first entry with a capacity, by pair of sites
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
    throw Error(one.line > other.line ? one.where : other.where,
                fmt::format("the entries of lines {} and {} give different capacities from {} to {}; a "
                            "`capacity` is shared by all flows from the one site to the other",
                            first, second, inventory_.sites[at(sites.first)].name,
                            inventory_.sites[at(sites.second)].name));
  }

  /// The first two devices of these classes that are on the same host or not, as `same_host` says.
  std::pair<int, int> example_pair(int p, int q, bool same_host) const {
    const int size = static_cast<int>(inventory_.devices.size());
    for (int a = 0; a < size; ++a)
      for (int b = 0; link_classes_.class_of_device[at(a)] == p && b < size; ++b)
        if (a != b && link_classes_.class_of_device[at(b)] == q &&
            same_host == (inventory_.devices[at(a)].host == inventory_.devices[at(b)].host))
          return {a, b};
    throw BrokenInvariant("a pair of link classes without devices");
  }

  Error missing_entry_error(const YamlValue& links) const {
    const int size = static_cast<int>(inventory_.devices.size());
    std::int64_t count = 0;
    std::string first;
    for (int a = 0; a < size; ++a)
      for (int b = 0; b < size; ++b) {
        const Device &from = inventory_.devices[at(a)], &to = inventory_.devices[at(b)];
        const auto& table = from.host == to.host ? same_host_ : table_;
        if (a == b ||
            table(link_classes_.class_of_device[at(a)], link_classes_.class_of_device[at(b)]) != unmatched)
          continue;
        if (count++ == 0) first = fmt::format("{} → {}", from.id, to.id);
      }
    return links.value_error(fmt::format("no entry matches {}{}", first,
                                         count == 1 ? "" : fmt::format(" and {} more pairs", count - 1)));
  }

  const DeviceInventory& inventory_;
  const std::vector<LinkEntry>& entries_;
  LinkClasses link_classes_;
  Eigen::MatrixXi table_, same_host_;
  std::int64_t steps_ = 0;
};

}  // namespace

RuleLinks read_link_rules(const YamlMap& topology, const DeviceInventory& inventory) {
  const auto links = topology.optional("links");
  std::vector<LinkEntry> entries;
  if (links) entries = read_link_entries(*links, inventory);
  for (LinkEntry& entry : template_link_entries(inventory)) entries.push_back(std::move(entry));
  return LinkRuleResolver(inventory, entries).resolve(topology, links);
}

}  // namespace dtfm::io
