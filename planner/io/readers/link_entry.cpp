#include "planner/io/readers/link_entry.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "planner/io/text/suggest.hpp"

namespace dtfm::io {
namespace {

/// What names in `links` mean.
class Ends {
 public:
  explicit Ends(const Fleet& fleet) : fleet_(fleet) {
    for (std::size_t i = 0; i < fleet.sites.size(); ++i) add(fleet.sites[i].name, LinkLevel::site, i);
    for (std::size_t i = 0; i < fleet.devices.size(); ++i) add(fleet.devices[i].id, LinkLevel::device, i);
    for (std::size_t i = 0; i < fleet.hosts.size(); ++i) add(fleet.hosts[i], LinkLevel::host, i);
  }

  LinkEnd end(const YamlValue& value) const {
    const std::string name = value.text();
    if (name == "*") return {};
    if (const auto known = ends_.find(name); known != ends_.end()) return known->second;
    const bool is_id = name.find('/') != std::string::npos;
    throw value.error(fmt::format("unknown {} {}; {}", is_id ? "host or device" : "site or machine",
                                  in_quotes(name), suggestion(name, names(is_id))));
  }

  LinkEnd site(const YamlValue& value) const {
    const std::string name = value.text();
    const auto known = ends_.find(name);
    if (known != ends_.end() && known->second.level == LinkLevel::site) return known->second;
    std::vector<std::string_view> possible{"host", "*"};
    for (const Site& site : fleet_.sites) possible.push_back(site.name);
    throw value.error(fmt::format("expected `host`, a site or `*`; found {}; {}", in_quotes(name),
                                  suggestion(name, possible)));
  }

 private:
  /// A name that is there already stays: the only GPU of a host has the id of the host and is a device.
  void add(const std::string& name, LinkLevel level, std::size_t index) {
    ends_.emplace(name, LinkEnd{level, static_cast<int>(index)});
  }

  std::vector<std::string_view> names(bool ids) const {
    std::vector<std::string_view> result;
    for (const auto& [name, end] : ends_)
      if (ids == (name.find('/') != std::string::npos)) result.push_back(name);
    return result;
  }

  const Fleet& fleet_;
  std::map<std::string, LinkEnd> ends_;
};

Link link_of(const YamlMap& map) {
  const auto [latency, ways] = latency_or_rtt(map);
  Link link{latency.seconds() / ways, map.required("bandwidth").rate()};
  if (const auto capacity = map.optional("capacity")) link.capacity = capacity->rate();
  if (const auto shared = map.optional("shared"))
    link.shared_by_sender = shared->choice({"flow", "sender"}) == 1;
  if (const auto egress = map.optional("egress")) link.egress = egress->data_price();
  return link;
}

void set_ends(const YamlMap& map, const Ends& ends, LinkEntry& entry) {
  const auto within = map.optional("within"), between = map.optional("between"), from = map.optional("from"),
             to = map.optional("to");
  if ((within ? 1 : 0) + (between ? 1 : 0) + (from || to ? 1 : 0) != 1)
    throw map.error("expected one of `within`, `between` and `from` with `to`");
  if (within) {
    entry.within = within->is_word("host") ? LinkWithin::host
                   : within->is_word("*")  ? LinkWithin::any_site
                                           : LinkWithin::no;
    if (entry.within == LinkWithin::no) entry.from = entry.to = ends.site(*within);
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

GivenLatency latency_or_rtt(const YamlMap& map) {
  const auto latency = map.optional("latency"), round_trip = map.optional("rtt");
  if (latency.has_value() == round_trip.has_value())
    throw map.error(latency ? "give `latency` (one way) or `rtt` (round trip), not both"
                            : "missing key `latency` (one way) or `rtt` (round trip)");
  return latency ? GivenLatency{*latency, 1} : GivenLatency{*round_trip, 2};
}

int LinkEntry::rank() const {
  const auto place = [](LinkLevel high, LinkLevel low) {
    return 10 * static_cast<int>(high) + 2 * static_cast<int>(low);
  };
  int result = place(std::max(from.level, to.level), std::min(from.level, to.level));
  if (within == LinkWithin::host) result = place(LinkLevel::host, LinkLevel::site) + 1;
  if (within == LinkWithin::any_site) result = place(LinkLevel::site, LinkLevel::any) + 1;
  return 2 * result + (both_directions ? 0 : 1);
}

std::vector<LinkEntry> read_link_entries(const YamlValue& links, const Fleet& fleet) {
  const Ends ends(fleet);
  std::vector<LinkEntry> entries;
  for (const YamlValue& item : links.list()) {
    const YamlMap map = item.map(
        {"within", "between", "from", "to", "latency", "rtt", "bandwidth", "capacity", "shared", "egress"});
    LinkEntry entry;
    entry.where = item.where();
    entry.line = item.line();
    set_ends(map, ends, entry);
    entry.link = link_of(map);
    entries.push_back(std::move(entry));
  }
  return entries;
}

}  // namespace dtfm::io
