#include "cli/topology/topology_check.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/cluster/link_range.hpp"
#include "planner/io/json_values.hpp"
#include "cli/common/text_formatting.hpp"
#include "cli/common/topology_formatting.hpp"
#include "core/base/index.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::cli {
namespace {

/// One kind of warning: the text for the first pair of devices, and the number of pairs.
class PairWarning {
 public:
  template <class Text>
  void add(const Text& text) {
    if (count_++ == 0) first_ = text();
  }
  void append_to(std::vector<std::string>& warnings) const {
    if (count_ == 1) warnings.push_back(first_);
    if (count_ > 1)
      warnings.push_back(fmt::format("{}; {} such pairs of devices", first_, with_thousands(count_)));
  }

 private:
  std::string first_;
  long long count_ = 0;
};

/// Calls visit(i, j) for devices of different sites, i < j.
template <class Visit>
void for_each_site_pair(const Topology& topology, const Visit& visit) {
  for (int i = 0; i < topology.size(); ++i)
    for (int j = i + 1; j < topology.size(); ++j)
      if (topology.devices[at(i)].site != topology.devices[at(j)].site) visit(i, j);
}

std::string format_device_pair(const Topology& topology, int from, int to) {
  return fmt::format("from {} to {}", io::quote(topology.devices[at(from)].id),
                     io::quote(topology.devices[at(to)].id));
}

/// Detours make the one-way latencies of a route differ, but not tenfold. Bandwidths that do suggest wrong
/// units.
constexpr double implausible_ratio = 10;
/// Longer than one way over a geostationary satellite and fibre halfway round the earth.
constexpr Seconds implausible_latency{0.5};

void warn_about_asymmetry(const Topology& topology, std::vector<std::string>& warnings) {
  PairWarning latency, bandwidth;
  const auto is_implausible = [](double a, double b) {
    return std::max(a, b) >= implausible_ratio * std::min(a, b) && a != b;
  };
  for_each_site_pair(topology, [&](int i, int j) {
    const Link forward_link = topology.link(i, j), backward_link = topology.link(j, i);
    if (is_implausible(forward_link.latency.value(), backward_link.latency.value()))
      latency.add([&] {
        return fmt::format("latency {} is {}, back {}", format_device_pair(topology, i, j),
                           io::format_seconds(forward_link.latency),
                           io::format_seconds(backward_link.latency));
      });
    if (is_implausible(forward_link.bandwidth.value(), backward_link.bandwidth.value()))
      bandwidth.add([&] {
        return fmt::format("bandwidth {} is {}, back {}", format_device_pair(topology, i, j),
                           io::format_rate(forward_link.bandwidth), io::format_rate(backward_link.bandwidth));
      });
  });
  latency.append_to(warnings);
  bandwidth.append_to(warnings);
}

void warn_about_links(const Topology& topology, std::vector<std::string>& warnings) {
  PairWarning high_latency, zero_latency, over_capacity;
  const auto check_link = [&](int from, int to) {
    const Link link = topology.link(from, to);
    if (link.latency > implausible_latency)
      high_latency.add([&] {
        return fmt::format("one-way latency {} is {}, longer than via satellite; is the unit right?",
                           format_device_pair(topology, from, to), io::format_seconds(link.latency));
      });
    if (link.latency == Seconds(0))
      zero_latency.add([&] {
        return fmt::format("latency {} is 0, between sites", format_device_pair(topology, from, to));
      });
    if (link.capacity < link.bandwidth)
      over_capacity.add([&] {
        return fmt::format("bandwidth of one flow {} is {}, above the capacity for all flows, {}",
                           format_device_pair(topology, from, to), io::format_rate(link.bandwidth),
                           io::format_rate(link.capacity));
      });
  };
  for_each_site_pair(topology, [&](int i, int j) {
    check_link(i, j);
    check_link(j, i);
  });
  high_latency.append_to(warnings);
  zero_latency.append_to(warnings);
  over_capacity.append_to(warnings);
}

void warn_about_unused_rules(const Topology& topology, std::vector<std::string>& warnings) {
  const auto* rules = std::get_if<RuleLinks>(&topology.links);
  if (rules == nullptr) return;
  std::vector<char> is_used(rules->links.size());
  for (const Eigen::MatrixXi& table :
       {std::cref<Eigen::MatrixXi>(rules->table), std::cref<Eigen::MatrixXi>(rules->same_host)})
    for (const int entry : table.reshaped())
      if (entry >= 0) is_used[at(entry)] = 1;
  for (std::size_t i = 0; i < is_used.size(); ++i)
    if (is_used[i] == 0)
      warnings.push_back(fmt::format("entry {} of `links` matches no pair of devices", i + 1));
}

bool has_price(const Topology& topology, const Device& device) {
  return device.price || (device.gpu >= 0 && topology.gpus[at(device.gpu)].price);
}

template <class IsMissing>
void warn_about_devices(const Topology& topology, const char* what, const IsMissing& is_missing,
                        std::vector<std::string>& warnings) {
  const auto first = std::find_if(topology.devices.begin(), topology.devices.end(), is_missing);
  const auto count = std::count_if(first, topology.devices.end(), is_missing);
  if (count > 0)
    warnings.push_back(fmt::format("{}: {} of {}, first {}", what, with_thousands(count),
                                   format_count(topology.size(), "device"), io::quote(first->id)));
}

LinkRange inter_site_links(const Topology& topology) {
  LinkRange range;
  for_each_site_pair(topology, [&](int i, int j) {
    range.add(topology.link(i, j));
    range.add(topology.link(j, i));
  });
  return range;
}

NameCounts count_gpus(const Topology& topology) {
  std::vector<std::string> names;
  for (const Device& device : topology.devices) names.push_back(gpu_name(topology, device));
  return count_names(names);
}

std::string format_links(const Topology& topology) {
  if (const auto* rules = std::get_if<RuleLinks>(&topology.links))
    return format_count(static_cast<long long>(rules->links.size()), "rule");
  return "measured, device by device";
}

}  // namespace

std::vector<std::string> topology_warnings(const Topology& topology) {
  std::vector<std::string> warnings;
  warn_about_asymmetry(topology, warnings);
  warn_about_links(topology, warnings);
  warn_about_unused_rules(topology, warnings);
  warn_about_devices(
      topology, "no GPU, which planning by iteration time or cost requires",
      [](const Device& device) { return device.gpu < 0; }, warnings);
  const auto is_unpriced = [&](const Device& device) { return !has_price(topology, device); };
  if (!std::all_of(topology.devices.begin(), topology.devices.end(), is_unpriced))
    warn_about_devices(topology, "no price, although other devices have one", is_unpriced, warnings);
  return warnings;
}

std::string format_topology_check(const Topology& topology, const std::vector<std::string>& warnings,
                                  bool quiet) {
  std::string text;
  if (!quiet) {
    text = fmt::format("{}, fingerprint {}\nGPUs           {}\nlinks          {}\n",
                       format_topology_size(topology), topology.fingerprint(),
                       format_counts(count_gpus(topology)), format_links(topology));
    if (const LinkRange range = inter_site_links(topology); range.has_links)
      text += fmt::format("between sites  latency {} … {}, bandwidth {} … {}\n",
                          io::format_seconds(range.min_latency), io::format_seconds(range.max_latency),
                          io::format_rate(range.min_bandwidth), io::format_rate(range.max_bandwidth));
    if (topology.transport)
      text += fmt::format("transport      {}, window {}\n", topology.transport->library,
                          io::format_bytes(topology.transport->window));
  }
  for (const std::string& warning : warnings) text += fmt::format("warning: {}\n", warning);
  return text;
}

nlohmann::ordered_json topology_check_json(const Topology& topology,
                                           const std::vector<std::string>& warnings) {
  nlohmann::ordered_json json = {{"schema", "dtfm-topology-check/1"},
                                 {"name", topology.name},
                                 {"fingerprint", topology.fingerprint()},
                                 {"devices", topology.size()},
                                 {"sites", topology.sites.size()},
                                 {"gpus", nlohmann::ordered_json::object()},
                                 {"links", format_links(topology)},
                                 {"between_sites", nullptr},
                                 {"transport", nullptr},
                                 {"warnings", warnings}};
  for (const auto& [name, count] : count_gpus(topology)) json["gpus"][name] = count;
  if (const LinkRange range = inter_site_links(topology); range.has_links)
    json["between_sites"] = io::range_json(range);
  if (topology.transport)
    json["transport"] = {{"library", topology.transport->library},
                         {"window_bytes", topology.transport->window.value()}};
  return json;
}

}  // namespace dtfm::cli
