#include "core/io/writers/cluster_text.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/cluster/topology.hpp"
#include "core/io/readers/device_inventory.hpp"
#include "core/io/readers/gpu_catalogue.hpp"
#include "core/io/readers/host_templates.hpp"
#include "core/io/text/split.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/text/units.hpp"
#include "core/io/writers/yaml_text.hpp"

namespace dtfm::io {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t"), end = text.find_last_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view() : text.substr(begin, end - begin + 1);
}

/// Takes "8x" from the beginning of `text`.
std::optional<int> take_count(std::string_view& text) {
  int count = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (status != std::errc() || end == text.data() + text.size() || *end != 'x') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()) + 1);
  if (count < 1 || count > max_devices)
    throw Error("--gpus", fmt::format("expected numbers from 1 to {}; found {}", max_devices, count));
  return count;
}

/// Machines that are equal, at one site.
struct Machines {
  std::string site;
  int count = 1, gpus = 1;
  std::string kind = {};  // in configs/hosts.yaml; empty: `gpu` says what they have
  std::optional<Gpu> gpu = {};
};

Machines read_machines(std::string_view item) {
  std::string_view text = item;
  const auto first = take_count(text), second = first ? take_count(text) : std::nullopt;
  const std::size_t at_sign = text.rfind('@');
  Machines machines{at_sign == std::string_view::npos ? "local"
                                                      : std::string(trimmed(text.substr(at_sign + 1)))};
  const std::string name(trimmed(text.substr(0, at_sign)));
  if (name.empty() || machines.site.empty() || machines.site == "*")
    throw Error("--gpus",
                fmt::format("expected GPUSxGPU@SITE, such as 8xH100@oregon, or HOSTSxGPUSxGPU@SITE; "
                            "found {}",
                            quote(item)));
  const std::vector<HostTemplate> kinds = built_in_hosts();
  const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const auto& it) { return it.name == name; });
  if (kind != kinds.end()) {
    if (second)
      throw Error("--gpus",
                  fmt::format("{} is a kind of host, which has its own number of GPUs", quote(name)));
    machines.kind = name;
    machines.count = first.value_or(1);
    machines.gpus = kind->gpus;
    return machines;
  }
  machines.gpu = find_row(built_in_gpus(), name, "--gpus", "unknown GPU or host");
  machines.count = second ? *first : 1;
  machines.gpus = second ? *second : first.value_or(1);
  return machines;
}

/// The machines of a site.
struct SiteMachines {
  std::string name;
  int count = 0;
  bool bring_links = true;  // to each other: all are of configs/hosts.yaml
};

std::vector<SiteMachines> by_site(const std::vector<Machines>& all) {
  std::vector<SiteMachines> sites;
  for (const Machines& it : all) {
    auto found =
        std::find_if(sites.begin(), sites.end(), [&](const auto& site) { return site.name == it.site; });
    if (found == sites.end()) found = sites.insert(sites.end(), {it.site});
    found->count += it.count;
    found->bring_links = found->bring_links && !it.kind.empty();
  }
  return sites;
}

using SitePair = std::pair<std::string, std::string>;  // sorted

SitePair pair_of(std::string_view one, std::string_view other) {
  return {std::string(std::min(one, other)), std::string(std::max(one, other))};
}

struct GivenLink {
  SitePair sites;
  Seconds latency;
  BitsPerSecond bandwidth;
};

/// The sites of "oregon-ohio", whose names may contain hyphens.
SitePair read_sites(std::string_view text, const std::vector<SiteMachines>& sites, const std::string& whole) {
  const auto is_site = [&](std::string_view name) {
    return std::any_of(sites.begin(), sites.end(), [&](const auto& site) { return site.name == name; });
  };
  if (is_site(text) || text == "*") return pair_of(text, text);
  std::vector<SitePair> found;
  for (std::size_t i = text.find('-'); i != std::string_view::npos; i = text.find('-', i + 1)) {
    const std::string_view one = trimmed(text.substr(0, i)), other = trimmed(text.substr(i + 1));
    if (is_site(one) && is_site(other)) found.push_back(pair_of(one, other));
  }
  if (found.size() == 1) return found.front();
  if (found.size() > 1)
    throw Error("--link", fmt::format("{} may mean several pairs of sites; rename a site", quote(whole)));
  std::vector<std::string_view> names;
  for (const SiteMachines& site : sites) names.push_back(site.name);
  throw Error("--link",
              fmt::format("unknown site or pair of sites {}; {}", quote(text), suggestion(text, names)));
}

/// "oregon-ohio: 40 ms 2 Gbps"
GivenLink read_link(const std::string& given, const std::vector<SiteMachines>& sites) {
  const std::string text = validate_text(given, "--link");
  const std::size_t colon = text.find(':');
  std::string packed = colon == std::string::npos ? "" : text.substr(colon + 1);
  std::erase(packed, ' ');
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  // The bandwidth begins where a digit follows a unit.
  std::size_t begin = 1;
  while (begin < packed.size() && (!is_digit(packed[begin]) || is_digit(packed[begin - 1]))) ++begin;
  if (begin >= packed.size())
    throw Error("--link",
                fmt::format("expected SITE-SITE: LATENCY BANDWIDTH, such as `oregon-ohio: 40 ms 2 Gbps`; "
                            "found {}",
                            quote(text)));
  try {
    const GivenLink link{read_sites(trimmed(std::string_view(text).substr(0, colon)), sites, text),
                         parse_seconds(packed.substr(0, begin)), parse_rate(packed.substr(begin))};
    if (link.latency >= Seconds(0) && link.bandwidth > BitsPerSecond(0)) return link;
  } catch (const Error& error) {
    if (error.where() == "--link") throw;
    throw Error("--link", fmt::format("{}: {}", quote(text), error.what()));
  }
  throw Error(
      "--link",
      fmt::format("expected a latency of at least zero and a bandwidth above zero; found {}", quote(text)));
}

/// Throws Error if a link between two machines is not given.
void check_complete(const std::vector<SiteMachines>& sites, const std::set<SitePair>& given) {
  if (given.contains({"*", "*"})) return;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const std::string& site = sites[i].name;
    if (sites[i].count > 1 && !sites[i].bring_links && !given.contains({site, site}))
      throw Error(
          "--link",
          fmt::format("is missing between the machines of {0}: add --link \"{0}: LATENCY BANDWIDTH\"", site));
    for (std::size_t j = 0; j < i; ++j)
      if (!given.contains(pair_of(site, sites[j].name)))
        throw Error("--link",
                    fmt::format("is missing between {0} and {1}: add --link \"{0}-{1}: LATENCY BANDWIDTH\"",
                                sites[j].name, site));
  }
}

/// Whether GPUs of a machine are linked directly: faster than its slot is.
bool is_direct(const Gpu& gpu) {
  return gpu.interconnect && gpu.host_link && *gpu.interconnect > *gpu.host_link;
}

std::string numbers(Seconds latency, BitsPerSecond bandwidth) {
  return fmt::format("latency: {}, bandwidth: {}", yaml_latency(latency), yaml_rate(bandwidth));
}

std::string device_entry(const Machines& it) {
  const std::string what =
      it.kind.empty()
          ? fmt::format("hosts: {}, gpus_per_host: {}, gpu: {}", it.count, it.gpus, yaml_quoted(it.gpu->name))
          : fmt::format("hosts: {}, host: {}", it.count, yaml_quoted(it.kind));
  return fmt::format("  - {{site: {}, {}}}\n", yaml_quoted(it.site), what);
}

/// Entries for the GPUs of one machine, which may differ between machines.
std::string links_inside(const std::vector<Machines>& all) {
  std::string text;
  std::map<std::string, int> hosts;  // of a site, so far
  const HostLinks known = built_in_host_links();
  for (const Machines& it : all) {
    const int first = hosts[it.site];
    hosts[it.site] += it.count;
    if (!it.gpu || it.gpus == 1) continue;
    if (!it.gpu->interconnect)
      throw Error(
          "--gpus",
          fmt::format("the bandwidth between several {} of one machine is not known; write a topology "
                      "file with their links",
                      it.gpu->name));
    const bool direct = is_direct(*it.gpu);
    const BitsPerSecond rate = *it.gpu->interconnect * (direct ? known.direct_share : 1);
    text +=
        fmt::format("  # `interconnect` of {} in configs/gpus.yaml, {}`latencies` of configs/hosts.yaml\n",
                    it.gpu->name, direct ? "`direct_share` and " : "");
    for (int host = first; host < first + it.count; ++host)
      text +=
          fmt::format("  - {{between: [{0}, {0}], {1}}}\n", yaml_quoted(fmt::format("{}/{}", it.site, host)),
                      numbers(direct ? known.direct_latency : known.pcie_latency, rate));
  }
  return text;
}

}  // namespace

std::string format_cluster(std::string_view gpus, const std::vector<std::string>& links) {
  const std::string valid_gpus = validate_text(std::string(gpus), "--gpus");
  std::vector<Machines> all;
  for (const std::string_view item : split(valid_gpus, ',')) all.push_back(read_machines(trimmed(item)));
  const std::vector<SiteMachines> sites = by_site(all);
  std::string entries = links_inside(all);
  std::set<SitePair> given;
  for (const std::string& text : links) {
    const GivenLink link = read_link(text, sites);
    if (!given.insert(link.sites).second)
      throw Error("--link", fmt::format("{} is given twice", quote(text)));
    entries += fmt::format("  - {{between: [{}, {}], {}}}\n", yaml_quoted(link.sites.first),
                           yaml_quoted(link.sites.second), numbers(link.latency, link.bandwidth));
  }
  check_complete(sites, given);
  std::string text = "# From --gpus and --link of dtfm-plan.\nversion: 1\nname: cluster\ndevices:\n";
  for (const Machines& it : all) text += device_entry(it);
  return entries.empty() ? text : text + "links:\n" + entries;
}

}  // namespace dtfm::io
