#include "cli/topology/topology_table.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/text_formatting.hpp"
#include "cli/common/topology_formatting.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"
#include "planner/io/json_values.hpp"

namespace dtfm::cli {
namespace {

using Cells = std::vector<std::vector<std::string>>;

constexpr std::size_t max_columns = 6;  // per table, to fit a terminal; more sites make more tables
constexpr std::size_t longest_name = 24;

int find_site(const Topology& topology, const std::string& name) {
  return static_cast<int>(&io::find_row(topology.sites, name, "--site", "no site") - topology.sites.data());
}

std::vector<int> select_sites(const Topology& topology, const std::vector<std::string>& names) {
  std::vector<int> sites;
  for (const std::string& name : names) {
    sites.push_back(find_site(topology, name));
    if (std::find(sites.begin(), sites.end() - 1, sites.back()) != sites.end() - 1)
      throw Error("--site", io::quote(name) + " is given twice");
  }
  if (names.empty()) {
    sites.resize(topology.sites.size());
    std::iota(sites.begin(), sites.end(), 0);
  }
  if (sites.size() > max_shown_sites)
    throw Error("--site", fmt::format("{} sites are too many; choose at most {} of them", sites.size(),
                                      max_shown_sites));
  return sites;
}

std::string format_range(const std::string& low, const std::string& high) {
  return low == high ? low : low + " … " + high;
}

std::string latency_cell(const LinkRange& link) {
  return link.has_links
             ? format_range(io::format_seconds(link.min_latency), io::format_seconds(link.max_latency))
             : "-";
}

std::string bandwidth_cell(const LinkRange& link) {
  return link.has_links
             ? format_range(io::format_rate(link.min_bandwidth), io::format_rate(link.max_bandwidth))
             : "-";
}

std::string site_name(const Topology& topology, int site) {
  return truncate_text(topology.sites[at(site)].name, longest_name);
}

std::string format_matrix(const Topology& topology, const SiteTable& table, const char* title,
                          std::string (*cell)(const LinkRange&)) {
  std::string text;
  for (std::size_t begin = 0; begin < table.sites.size(); begin += max_columns) {
    const std::size_t end = std::min(begin + max_columns, table.sites.size());
    Cells cells{{title}};
    for (std::size_t column = begin; column < end; ++column)
      cells[0].push_back(site_name(topology, table.sites[column]));
    for (std::size_t row = 0; row < table.sites.size(); ++row) {
      cells.push_back({site_name(topology, table.sites[row])});
      for (std::size_t column = begin; column < end; ++column)
        cells.back().push_back(cell(table.link(row, column)));
    }
    if (!text.empty()) text += "\n";
    text += align_columns(cells);
  }
  return text;
}

/// The devices of a site, equal ones grouped: "8 × V100-16GB".
std::string format_devices(const Topology& topology, int site) {
  std::vector<std::string> kinds;
  for (const Device& device : topology.devices) {
    if (device.site != site) continue;
    kinds.push_back(gpu_name(topology, device));
    if (device.speed != 1) kinds.back() += fmt::format(" at {:.4g} speed", device.speed);
  }
  return format_counts(count_names(kinds));
}

std::string format_device_range(const Topology& topology, int site) {
  const auto is_here = [&](const Device& device) { return device.site == site; };
  const auto first = std::find_if(topology.devices.begin(), topology.devices.end(), is_here);
  const auto last = std::find_if(topology.devices.rbegin(), topology.devices.rend(), is_here);
  if (first == topology.devices.end()) return "none";
  return format_range(truncate_text(first->id, longest_name), truncate_text(last->id, longest_name));
}

}  // namespace

SiteTable site_table(const Topology& topology, const std::vector<std::string>& names) {
  SiteTable table{select_sites(topology, names), {}};
  const std::size_t size = table.sites.size();
  table.links.resize(size * size);
  std::vector<int> position(topology.sites.size(), -1);
  for (std::size_t i = 0; i < size; ++i) position[at(table.sites[i])] = static_cast<int>(i);
  for (int from = 0; from < topology.size(); ++from)
    for (int to = 0; to < topology.size(); ++to) {
      const int row = position[at(topology.devices[at(from)].site)],
                column = position[at(topology.devices[at(to)].site)];
      if (from != to && row >= 0 && column >= 0)
        table.links[at(row) * size + at(column)].add(topology.link(from, to));
    }
  return table;
}

std::string format_site_table(const Topology& topology, const SiteTable& table) {
  Cells devices{{"site", "devices", "", "uplink", "downlink"}};
  for (const int site : table.sites) {
    const Site& site_record = topology.sites[at(site)];
    devices.push_back({site_name(topology, site), format_device_range(topology, site),
                       format_devices(topology, site), io::format_rate(site_record.uplink),
                       io::format_rate(site_record.downlink)});
  }
  return join_blocks({format_topology_size(topology) + "\n", align_columns(devices),
                      format_matrix(topology, table, "latency", latency_cell),
                      format_matrix(topology, table, "bandwidth", bandwidth_cell)});
}

nlohmann::ordered_json site_table_json(const Topology& topology, const SiteTable& table) {
  using Json = nlohmann::ordered_json;
  Json sites = Json::array(), links = Json::array();
  for (const int site : table.sites) {
    Json devices = Json::array();
    for (const Device& device : topology.devices)
      if (device.site == site)
        devices.push_back({{"device", device.id},
                           {"gpu", device.gpu < 0 ? Json(nullptr) : Json(topology.gpus[at(device.gpu)].name)},
                           {"speed", device.speed}});
    sites.push_back({{"site", topology.sites[at(site)].name}, {"devices", devices}});
  }
  for (std::size_t row = 0; row < table.sites.size(); ++row)
    for (std::size_t column = 0; column < table.sites.size(); ++column) {
      const LinkRange& format_range = table.link(row, column);
      if (!format_range.has_links) continue;
      links.push_back({{"from", topology.sites[at(table.sites[row])].name},
                       {"to", topology.sites[at(table.sites[column])].name}});
      links.back().update(io::range_json(format_range));
    }
  return {{"schema", "dtfm-topology-table/1"}, {"name", topology.name}, {"sites", sites}, {"links", links}};
}

}  // namespace dtfm::cli
