#include "core/io/readers/link_entry.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "core/io/readers/link_rates.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::io {
namespace {

/// Resolves names in `links` to sites, hosts and devices.
class EndpointResolver {
 public:
  explicit EndpointResolver(const DeviceInventory& inventory) : inventory_(inventory) {
    for (std::size_t i = 0; i < inventory.sites.size(); ++i) add(inventory.sites[i].name, LinkLevel::site, i);
    for (std::size_t i = 0; i < inventory.devices.size(); ++i)
      add(inventory.devices[i].id, LinkLevel::device, i);
    for (std::size_t i = 0; i < inventory.hosts.size(); ++i) add(inventory.hosts[i], LinkLevel::host, i);
  }

  LinkEndpoint end(const YamlValue& value) const {
    const std::string name = value.text();
    if (name == "*") return {};
    if (const auto known = endpoints_.find(name); known != endpoints_.end()) return known->second;
    const bool is_id = name.find('/') != std::string::npos;
    throw value.error(fmt::format("unknown {} {}; {}", is_id ? "host or device" : "site or machine",
                                  quote(name), suggestion(name, names(is_id))));
  }

  LinkEndpoint site(const YamlValue& value) const {
    const std::string name = value.text();
    const auto known = endpoints_.find(name);
    if (known != endpoints_.end() && known->second.level == LinkLevel::site) return known->second;
    std::vector<std::string_view> possible{"host", "*"};
    for (const Site& site : inventory_.sites) possible.push_back(site.name);
    throw value.error(
        fmt::format("expected `host`, a site or `*`; found {}; {}", quote(name), suggestion(name, possible)));
  }

 private:
  /// Does not replace an existing name: the only GPU of a host has the same id as the host and counts as a
  /// device.
  void add(const std::string& name, LinkLevel level, std::size_t index) {
    endpoints_.emplace(name, LinkEndpoint{level, static_cast<int>(index)});
  }

  std::vector<std::string_view> names(bool ids) const {
    std::vector<std::string_view> result;
    for (const auto& [name, end] : endpoints_)
      if (ids == (name.find('/') != std::string::npos)) result.push_back(name);
    return result;
  }

  const DeviceInventory& inventory_;
  std::map<std::string, LinkEndpoint> endpoints_;
};

/// Reads a list of rates by message size, which also gives the latency.
LinkTime read_rates(const YamlValue& value, const YamlMap& map) {
  constexpr std::size_t max_rates = 100;
  for (const char* key : {"latency", "rtt"})
    if (const auto given = map.optional(key))
      throw given->value_error("cannot be combined with rates by message size, which determine the latency");
  std::vector<MeasuredRate> rates;
  std::set<double> sizes;
  for (const YamlValue& item : value.list()) {
    if (rates.size() == max_rates) throw item.error(fmt::format("more than {} rates", max_rates));
    const YamlMap entry = item.map({"size", "rate"});
    const YamlValue size = entry.required("size");
    rates.push_back({size.bytes(), entry.required("rate").rate()});
    if (rates.back().size.value() < 1) throw size.value_error("expected at least 1 B");
    if (!sizes.insert(rates.back().size.value()).second) throw size.value_error("duplicate size");
  }
  if (sizes.empty() || *sizes.rbegin() < 2 * *sizes.begin())
    throw value.value_error(
        "expected the rates of two or more message sizes, the largest at least twice the smallest");
  const auto fitted = fit_link_time(rates);
  // Chosen by hand. Measured curves differ from a latency and a bandwidth by at most 12 % (those of Sailor,
  // SOSP 2025), and messages whose time is mostly latency do not determine a bandwidth.
  constexpr double max_misfit = 2, max_extrapolation = 4;
  if (!fitted)
    throw value.value_error(
        "the measured times (size ÷ rate) do not grow with the size, so no bandwidth fits; check that each "
        "rate belongs to its size");
  double largest_rate = 0;
  for (const MeasuredRate& it : rates) {
    const double measured_s = (it.size / it.rate).value(),
                 fitted_s = fitted->latency.value() + (it.size / fitted->bandwidth).value();
    if (fitted_s > measured_s * max_misfit || measured_s > fitted_s * max_misfit)
      throw value.value_error(fmt::format(
          "no latency and bandwidth fit: {} take {}, with the fitted ones {}; check the rates, or list only "
          "sizes near those that will be sent",
          format_bytes(it.size), format_seconds(Seconds(measured_s)), format_seconds(Seconds(fitted_s))));
    largest_rate = std::max(largest_rate, it.rate.value());
  }
  if (fitted->bandwidth.value() > max_extrapolation * largest_rate)
    throw value.value_error(
        fmt::format("the sizes are too small to determine the bandwidth, fitted as {}; add larger messages",
                    format_rate(fitted->bandwidth)));
  return *fitted;
}

LinkTime read_link_time(const YamlMap& map) {
  const YamlValue bandwidth = map.required("bandwidth");
  if (bandwidth.is_map()) throw bandwidth.value_error("expected a data rate, or a list of `{size, rate}`");
  if (bandwidth.is_list()) return read_rates(bandwidth, map);
  const auto [latency, one_way_count] = read_latency(map);
  return {latency.seconds() / one_way_count, bandwidth.rate()};
}

Link read_link(const YamlMap& map) {
  const LinkTime time = read_link_time(map);
  Link link{time.latency, time.bandwidth};
  if (const auto capacity = map.optional("capacity")) link.capacity = capacity->rate();
  if (const auto shared = map.optional("shared"))
    link.shared_by_sender = shared->choice({"flow", "sender"}) == 1;
  if (const auto egress = map.optional("egress")) link.egress = egress->data_price();
  return link;
}

void read_endpoints(const YamlMap& map, const EndpointResolver& ends, LinkEntry& entry) {
  const auto within = map.optional("within"), between = map.optional("between"), from = map.optional("from"),
             to = map.optional("to");
  if ((within ? 1 : 0) + (between ? 1 : 0) + (from || to ? 1 : 0) != 1)
    throw map.error("expected one of `within`, `between` and `from` with `to`");
  if (within) {
    entry.within = within->is_word("host") ? LinkScope::host
                   : within->is_word("*")  ? LinkScope::any_site
                                           : LinkScope::none;
    if (entry.within == LinkScope::none) entry.from = entry.to = ends.site(*within);
  } else if (between) {
    const std::vector<YamlValue> two = between->list();
    if (two.size() != 2) throw between->value_error(fmt::format("expected two ends; found {}", two.size()));
    entry.from = ends.end(two[0]);
    entry.to = ends.end(two[1]);
  } else {
    entry.from = ends.end(map.required("from"));
    entry.to = ends.end(map.required("to"));
    entry.both_directions = false;
  }
}

}  // namespace

LatencyValue read_latency(const YamlMap& map) {
  const auto latency = map.optional("latency"), round_trip = map.optional("rtt");
  if (latency.has_value() == round_trip.has_value())
    throw map.error(latency ? "give `latency` (one way) or `rtt` (round trip), not both"
                            : "missing key `latency` (one way) or `rtt` (round trip)");
  return latency ? LatencyValue{*latency, 1} : LatencyValue{*round_trip, 2};
}

int LinkEntry::specificity() const {
  const auto base_rank = [](LinkLevel high, LinkLevel low) {
    return 10 * static_cast<int>(high) + 2 * static_cast<int>(low);
  };
  int result = base_rank(std::max(from.level, to.level), std::min(from.level, to.level));
  if (within == LinkScope::host) result = base_rank(LinkLevel::host, LinkLevel::site) + 1;
  if (within == LinkScope::any_site) result = base_rank(LinkLevel::site, LinkLevel::any) + 1;
  const int scale = 4;  // leaves a rank for links of templates, below the entries of their scope
  if (template_index >= 0) return scale * result - 1;
  return scale * result + (both_directions ? 0 : 1);
}

std::vector<LinkEntry> read_link_entries(const YamlValue& links, const DeviceInventory& inventory) {
  const EndpointResolver ends(inventory);
  std::vector<LinkEntry> entries;
  for (const YamlValue& item : links.list()) {
    const YamlMap map = item.map(
        {"within", "between", "from", "to", "latency", "rtt", "bandwidth", "capacity", "shared", "egress"});
    LinkEntry entry;
    entry.where = item.where();
    entry.line = item.line();
    read_endpoints(map, ends, entry);
    entry.link = read_link(map);
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<LinkEntry> template_link_entries(const DeviceInventory& inventory) {
  std::vector<LinkEntry> entries;
  for (std::size_t i = 0; i < inventory.template_links.size(); ++i) {
    const TemplateLinks& links = inventory.template_links[i];
    LinkEntry entry;
    entry.where = links.where;
    entry.template_index = static_cast<int>(i);
    const auto add = [&](LinkScope scope, const Link& link) {
      entry.within = scope;
      entry.link = link;
      entries.push_back(entry);
    };
    if (links.inside) add(LinkScope::host, *links.inside);
    add(LinkScope::any_site, links.to_site);
  }
  return entries;
}

}  // namespace dtfm::io
