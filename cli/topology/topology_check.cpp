#include "cli/topology/topology_check.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/link_range.hpp"
#include "cli/common/topology_words.hpp"
#include "cli/common/words.hpp"
#include "planner/core/index.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/units.hpp"

namespace dtfm::cli {
namespace {

/// One kind of warning: the first pair of devices that deserves it, and how many do.
class PairWarning {
 public:
  template <class Text>
  void add(const Text& text) {
    if (count_++ == 0) first_ = text();
  }
  void put_into(std::vector<std::string>& warnings) const {
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
void for_site_pairs(const Topology& topology, const Visit& visit) {
  for (int i = 0; i < topology.size(); ++i)
    for (int j = i + 1; j < topology.size(); ++j)
      if (topology.devices[at(i)].site != topology.devices[at(j)].site) visit(i, j);
}

std::string from_to(const Topology& topology, int from, int to) {
  return fmt::format("from {} to {}", io::in_quotes(topology.devices[at(from)].id),
                     io::in_quotes(topology.devices[at(to)].id));
}

/// One way the two directions of a route differ by detours, not tenfold; bandwidths do so by a slip of units.
constexpr double too_unlike = 10;
/// One way over a geostationary satellite and half the earth's fibre is less.
constexpr Seconds too_far{0.5};

void warn_of_directions(const Topology& topology, std::vector<std::string>& warnings) {
  PairWarning latency, bandwidth;
  const auto is_unlike = [](double a, double b) {
    return std::max(a, b) >= too_unlike * std::min(a, b) && a != b;
  };
  for_site_pairs(topology, [&](int i, int j) {
    const Link there = topology.link(i, j), back = topology.link(j, i);
    if (is_unlike(there.latency.value(), back.latency.value()))
      latency.add([&] {
        return fmt::format("latency {} is {}, back {}", from_to(topology, i, j),
                           io::format_seconds(there.latency), io::format_seconds(back.latency));
      });
    if (is_unlike(there.bandwidth.value(), back.bandwidth.value()))
      bandwidth.add([&] {
        return fmt::format("bandwidth {} is {}, back {}", from_to(topology, i, j),
                           io::format_rate(there.bandwidth), io::format_rate(back.bandwidth));
      });
  });
  latency.put_into(warnings);
  bandwidth.put_into(warnings);
}

void warn_of_links(const Topology& topology, std::vector<std::string>& warnings) {
  PairWarning far, near, narrow;
  const auto look = [&](int from, int to) {
    const Link link = topology.link(from, to);
    if (link.latency > too_far)
      far.add([&] {
        return fmt::format("latency {} is {}, one way: farther than a satellite; is its unit right?",
                           from_to(topology, from, to), io::format_seconds(link.latency));
      });
    if (link.latency == Seconds(0))
      near.add([&] { return fmt::format("latency {} is 0, between sites", from_to(topology, from, to)); });
    if (link.capacity < link.bandwidth)
      narrow.add([&] {
        return fmt::format("one flow {} may have {}, more than the capacity of all flows, {}",
                           from_to(topology, from, to), io::format_rate(link.bandwidth),
                           io::format_rate(link.capacity));
      });
  };
  for_site_pairs(topology, [&](int i, int j) {
    look(i, j);
    look(j, i);
  });
  far.put_into(warnings);
  near.put_into(warnings);
  narrow.put_into(warnings);
}

void warn_of_idle_rules(const Topology& topology, std::vector<std::string>& warnings) {
  const auto* rules = std::get_if<RuleLinks>(&topology.links);
  if (rules == nullptr) return;
  std::vector<char> is_used(rules->links.size());
  for (const Eigen::MatrixXi& table :
       {std::cref<Eigen::MatrixXi>(rules->table), std::cref<Eigen::MatrixXi>(rules->same_host)})
    for (const int entry : table.reshaped())
      if (entry >= 0) is_used[at(entry)] = 1;
  for (std::size_t i = 0; i < is_used.size(); ++i)
    if (is_used[i] == 0)
      warnings.push_back(fmt::format("entry {} of `links` is for no pair of devices", i + 1));
}

bool has_price(const Topology& topology, const Device& device) {
  return device.price || (device.gpu >= 0 && topology.gpus[at(device.gpu)].price);
}

template <class Lacks>
void warn_of_devices(const Topology& topology, const char* what, const Lacks& lacks,
                     std::vector<std::string>& warnings) {
  const auto first = std::find_if(topology.devices.begin(), topology.devices.end(), lacks);
  const auto count = std::count_if(first, topology.devices.end(), lacks);
  if (count > 0)
    warnings.push_back(fmt::format("{}: {} of {}, first {}", what, with_thousands(count),
                                   counted(topology.size(), "device"), io::in_quotes(first->id)));
}

LinkRange between_sites(const Topology& topology) {
  LinkRange range;
  for_site_pairs(topology, [&](int i, int j) {
    range.add(topology.link(i, j));
    range.add(topology.link(j, i));
  });
  return range;
}

NameCounts gpu_counts(const Topology& topology) {
  std::vector<std::string> names;
  for (const Device& device : topology.devices) names.push_back(gpu_name(topology, device));
  return counts_of(names);
}

std::string links_in_words(const Topology& topology) {
  if (const auto* rules = std::get_if<RuleLinks>(&topology.links))
    return fmt::format("{} of `links`", counted(static_cast<long long>(rules->links.size()), "rule"));
  return "measured, device by device";
}

}  // namespace

std::vector<std::string> warnings_of(const Topology& topology) {
  std::vector<std::string> warnings;
  warn_of_directions(topology, warnings);
  warn_of_links(topology, warnings);
  warn_of_idle_rules(topology, warnings);
  warn_of_devices(
      topology, "without a GPU, which plans by iteration time and by cost need",
      [](const Device& device) { return device.gpu < 0; }, warnings);
  const auto is_unpriced = [&](const Device& device) { return !has_price(topology, device); };
  if (!std::all_of(topology.devices.begin(), topology.devices.end(), is_unpriced))
    warn_of_devices(topology, "without a price while others have one", is_unpriced, warnings);
  return warnings;
}

std::string check_text(const Topology& topology, const std::vector<std::string>& warnings, bool quiet) {
  std::string text;
  if (!quiet) {
    text =
        fmt::format("{}, fingerprint {}\nGPUs           {}\nlinks          {}\n", machines_in_words(topology),
                    topology.fingerprint(), counts_in_words(gpu_counts(topology)), links_in_words(topology));
    if (const LinkRange range = between_sites(topology); range.is_any)
      text += fmt::format("between sites  latency {} … {}, bandwidth {} … {}\n",
                          io::format_seconds(range.least_latency), io::format_seconds(range.most_latency),
                          io::format_rate(range.least_bandwidth), io::format_rate(range.most_bandwidth));
  }
  for (const std::string& warning : warnings) text += fmt::format("warning: {}\n", warning);
  return text;
}

nlohmann::ordered_json check_json(const Topology& topology, const std::vector<std::string>& warnings) {
  nlohmann::ordered_json json = {{"schema", "dtfm-topology-check/1"},
                                 {"name", topology.name},
                                 {"fingerprint", topology.fingerprint()},
                                 {"devices", topology.size()},
                                 {"sites", topology.sites.size()},
                                 {"gpus", nlohmann::ordered_json::object()},
                                 {"links", links_in_words(topology)},
                                 {"between_sites", nullptr},
                                 {"warnings", warnings}};
  for (const auto& [name, count] : gpu_counts(topology)) json["gpus"][name] = count;
  if (const LinkRange range = between_sites(topology); range.is_any)
    json["between_sites"] = range_json(range);
  return json;
}

}  // namespace dtfm::cli
