#include "core/io/writers/topology_writer.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/cluster/topology.hpp"
#include "core/io/readers/gpu_catalogue.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/writers/yaml_text.hpp"

namespace dtfm::io {
namespace {

using Links = std::map<std::pair<int, int>, LinkSummary>;

/// Throws Error at `option` if the user names a site that was not measured.
template <class Value>
void check_sites(const std::map<std::string, Value>& named, const std::set<std::string>& sites,
                 const char* option) {
  for (const auto& [site, value] : named)
    if (!sites.contains(site))
      throw Error(option, fmt::format("no site {} was measured; {}", quote(site),
                                      suggestion(site, {sites.begin(), sites.end()})));
}

void check_gpu(const std::string& name) {
  if (!name.empty()) find_row(built_in_gpus(), name, "--gpu", "unknown GPU");
}

/// Throws Error if both a site and one of its machines were measured: links of the site would match its
/// machines, too.
void check_sites_or_machines(const std::vector<MeasuredEndpoint>& endpoints) {
  std::set<std::string> whole;
  for (const MeasuredEndpoint& endpoint : endpoints)
    if (endpoint.machine.empty()) whole.insert(endpoint.site);
  for (const MeasuredEndpoint& endpoint : endpoints)
    if (!endpoint.machine.empty() && whole.contains(endpoint.site))
      throw Error("", fmt::format("site {} was measured both as a whole and by its machine {}",
                                  quote(endpoint.site), quote(endpoint.machine)));
}

/// Completes the endpoints with the user's settings, which override the measurements.
std::vector<MeasuredEndpoint> apply_settings(std::vector<MeasuredEndpoint> endpoints,
                                             const InventorySettings& settings) {
  std::set<std::string> sites, gpus;
  for (MeasuredEndpoint& endpoint : endpoints) {
    const auto gpu = settings.gpu_of.find(endpoint.site);
    const auto hosts = settings.hosts_of.find(endpoint.site);
    if (!settings.gpu.empty()) endpoint.gpu = settings.gpu;
    if (gpu != settings.gpu_of.end()) endpoint.gpu = gpu->second;
    if (settings.hosts) endpoint.hosts = *settings.hosts;
    if (hosts != settings.hosts_of.end()) endpoint.hosts = hosts->second;
    if (settings.gpus_per_host) endpoint.gpus_per_host = *settings.gpus_per_host;
    if (!endpoint.machine.empty() && endpoint.hosts > 1)
      throw Error("--count", fmt::format("{} is a single machine", quote(endpoint.machine)));
    sites.insert(endpoint.site);
    gpus.insert(endpoint.gpu);
  }
  check_sites_or_machines(endpoints);
  check_sites(settings.gpu_of, sites, "--gpu");
  check_sites(settings.hosts_of, sites, "--count");
  for (const std::string& gpu : gpus) check_gpu(gpu);
  return endpoints;
}

std::string format_device(const MeasuredEndpoint& endpoint) {
  std::string line = "  - {";
  if (!endpoint.machine.empty()) line += fmt::format("name: {}, ", yaml_quoted(endpoint.machine));
  line += "site: " + yaml_quoted(endpoint.site);
  if (endpoint.machine.empty() && endpoint.gpus_per_host > 1)
    line += fmt::format(", hosts: {}", endpoint.hosts);
  if (endpoint.gpus_per_host > 1) line += fmt::format(", gpus_per_host: {}", endpoint.gpus_per_host);
  if (endpoint.machine.empty() && endpoint.gpus_per_host == 1 && endpoint.hosts > 1)
    line += fmt::format(", count: {}", endpoint.hosts);
  if (!endpoint.gpu.empty()) line += ", gpu: " + yaml_quoted(endpoint.gpu);
  return line + "}\n";
}

std::string format_within(const char* within, const std::optional<LinkSettings>& link, bool is_needed,
                          const char* option) {
  if (!is_needed) return "";
  if (!link)
    throw Error(option, "is required, because it was not measured (LATENCY,BANDWIDTH, such as 5us,300Gbps)");
  return fmt::format("  - {{within: {}, latency: {}, bandwidth: {}}}  # as specified by the user\n", within,
                     yaml_latency(link->latency), yaml_rate(link->bandwidth));
}

/// Sites with several machines. A capacity measured between two machines is not that of their sites.
std::set<std::string> multi_host_sites(const std::vector<MeasuredEndpoint>& endpoints) {
  std::set<std::string> seen, multi_host;
  for (const MeasuredEndpoint& endpoint : endpoints)
    if (!seen.insert(endpoint.site).second || endpoint.hosts > 1) multi_host.insert(endpoint.site);
  return multi_host;
}

std::string format_link(const std::vector<MeasuredEndpoint>& endpoints, std::pair<int, int> pair,
                        const LinkSummary& link, const std::set<std::string>& multi_host) {
  const MeasuredEndpoint &from = endpoints[at(pair.first)], &to = endpoints[at(pair.second)];
  std::string line =
      fmt::format("  - {{from: {}, to: {}, latency: {}, bandwidth: {}", yaml_quoted(from.name()),
                  yaml_quoted(to.name()), yaml_latency(link.latency), yaml_rate(link.bandwidth));
  if (link.capacity && !multi_host.contains(from.site) && !multi_host.contains(to.site))
    line += ", capacity: " + yaml_rate(*link.capacity);
  line += "}";
  std::string comment;
  const auto add_remark = [&](const std::string& text) { comment += (comment.empty() ? " " : ", ") + text; };
  if (link.is_assumed) add_remark("not measured: copied from the other direction");
  if (link.spread) add_remark(fmt::format("bandwidth ± {}", yaml_rate(*link.spread)));
  if (!link.time.empty()) add_remark(link.time);
  return line + (comment.empty() ? "" : "  #" + comment) + "\n";
}

bool is_close(double a, double b) {
  constexpr double digits = 1e-5;  // six significant digits are written
  return std::abs(a - b) <= digits * std::max(std::abs(a), std::abs(b));
}

/// Parses the text and asserts that it gives the same sites and links, so that no untrusted name has been
/// misinterpreted.
void check_read_back(const std::string& text, const std::vector<MeasuredEndpoint>& endpoints,
                     const Links& links) {
  const Topology topology = parse_topology(text, "the topology", {});
  std::vector<int> first;  // first device of each endpoint
  int device = 0;
  for (const MeasuredEndpoint& endpoint : endpoints) {
    first.push_back(device);
    DTFM_ASSERT(device < topology.size());
    DTFM_ASSERT(topology.sites[at(topology.devices[at(device)].site)].name == endpoint.site);
    device += endpoint.hosts * endpoint.gpus_per_host;
  }
  DTFM_ASSERT(device == topology.size());
  for (const auto& [pair, link] : links) {
    const Link read = topology.link(first[at(pair.first)], first[at(pair.second)]);
    DTFM_ASSERT(is_close(read.latency.value(), link.latency.value()));
    DTFM_ASSERT(is_close(read.bandwidth.value(), link.bandwidth.value()));
  }
}

}  // namespace

bool is_valid_topology_name(const std::string& name) {
  constexpr std::size_t max_length = 128;
  if (name.empty() || name.size() > max_length) return false;
  try {
    return validate_text(name, "").find_first_of("\t\n\r") == std::string::npos;
  } catch (const Error&) {
    return false;
  }
}

std::string format_topology(const NetworkMeasurements& measurements, const Links& links,
                            const InventorySettings& settings) {
  if (!is_valid_topology_name(settings.name))
    throw Error("--topology-name", fmt::format("{} cannot be the name of a topology", quote(settings.name)));
  const std::vector<MeasuredEndpoint> endpoints = apply_settings(measurements.endpoints, settings);
  const std::set<std::string> multi_host = multi_host_sites(endpoints);
  bool has_neighbours = false, has_hosts = false;
  for (const MeasuredEndpoint& endpoint : endpoints) {
    has_neighbours = has_neighbours || endpoint.hosts > 1;
    has_hosts = has_hosts || endpoint.gpus_per_host > 1;
  }
  std::string text = fmt::format("# Imported by dtfm-topology from {}.\nversion: 1\nname: {}\ndevices:\n",
                                 measurements.description, yaml_quoted(settings.name));
  for (const MeasuredEndpoint& endpoint : endpoints) text += format_device(endpoint);
  text += "links:\n" + format_within("host", settings.within_host, has_hosts, "--within-host") +
          format_within("\"*\"", settings.within_site, has_neighbours, "--within-site");
  for (const auto& [pair, link] : links) text += format_link(endpoints, pair, link, multi_host);
  check_read_back(text, endpoints, links);
  return text;
}

}  // namespace dtfm::io
