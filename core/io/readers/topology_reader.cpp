#include "core/io/readers/topology_reader.hpp"

#include <cmath>

#include <fmt/format.h>

#include "core/cluster/link_classes.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/device_inventory.hpp"
#include "core/io/readers/link_entry.hpp"
#include "core/io/readers/link_rules.hpp"
#include "core/io/text/csv_matrix.hpp"
#include "core/io/text/named_file.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::io {
namespace {

/// Reads the matrix that {file, unit} describes, in base units.
Eigen::MatrixXd read_matrix(const YamlValue& value, const std::filesystem::path& folder, MatrixFormat format,
                            Unit (*parse_unit)(std::string_view)) {
  const YamlMap map = value.map({"file", "unit"});
  const YamlValue file = map.required("file");
  format.unit = read_unit(map.required("unit"), parse_unit);
  const NamedText named = named_text(file, folder, csv_size_limit);
  return parse_csv_matrix(named.open, named.path, format);
}

MeasuredLinks read_measured_links(const YamlValue& value, const DeviceInventory& inventory,
                                  const std::filesystem::path& folder) {
  const YamlMap map = value.map({"latency", "rtt", "bandwidth"});
  const auto [latency, one_way_count] = read_latency(map);
  std::vector<std::string> ids;
  for (const Device& device : inventory.devices) ids.push_back(device.id);
  const Unit unit{"", 0};
  MeasuredLinks links;
  links.latency = read_matrix(latency, folder, {ids, unit, true}, time_unit) / one_way_count;
  links.bandwidth = read_matrix(map.required("bandwidth"), folder, {ids, unit, false}, rate_unit);
  return links;
}

std::variant<RuleLinks, MeasuredLinks> read_links(const YamlMap& topology, const DeviceInventory& inventory,
                                                  const std::filesystem::path& folder) {
  const auto links = topology.optional("links"), measured = topology.optional("measured");
  if (links && measured) throw measured->error("give `links` or `measured`, not both");
  if (measured) return read_measured_links(*measured, inventory, folder);
  return read_link_rules(topology, inventory);
}

Transport read_library(const YamlValue& value) {
  std::vector<std::string_view> names;
  for (const Transport& it : transports) names.push_back(it.library);
  return transports[value.choice(names)];
}

/// The name of a library, or a map with a window for machines that are not set up as usual.
Transport read_transport(const YamlValue& value) {
  if (!value.is_map()) return read_library(value);
  const YamlMap map = value.map({"library", "window"});
  Transport transport = read_library(map.required("library"));
  if (const auto window = map.optional("window")) {
    transport.window = window->bytes();
    if (transport.window < transport.initial_window)
      throw window->value_error(
          fmt::format("must be at least the initial window of {} B", transport.initial_window.value()));
  }
  return transport;
}

/// Throws Error unless all off-diagonal elements are within the limits.
void check_matrix(const Eigen::MatrixXd& matrix, const Topology& topology, const char* name, double min_value,
                  double max_value) {
  if (matrix.rows() != topology.size() || matrix.cols() != topology.size())
    throw Error(name,
                fmt::format("expected {0} × {0} numbers, a row and a column per device; found {1} × {2}",
                            topology.size(), matrix.rows(), matrix.cols()));
  for (Eigen::Index to = 0; to < matrix.cols(); ++to)
    for (Eigen::Index from = 0; from < matrix.rows(); ++from) {
      const double value = matrix(from, to);
      if (from == to || (value >= min_value && value <= max_value)) continue;
      throw Error(fmt::format("{}[{}, {}]", name, from, to),
                  fmt::format("must be from {} to {}; found {}", min_value, max_value, value));
    }
}

/// Links of rules if the matrices follow from few of them, which are faster to look up.
void set_links(MeasuredLinks measured, Topology& topology) {
  if (auto rules = rules_of(measured, topology.devices))
    topology.links = *std::move(rules);
  else
    topology.links = std::move(measured);
}

}  // namespace

void set_measured_links(Topology& topology, Eigen::MatrixXd latency_s, Eigen::MatrixXd bandwidth_bps) {
  check_matrix(latency_s, topology, "latency_s", 0, max_time_s);
  check_matrix(bandwidth_bps, topology, "bandwidth_bps", min_rate_bps, max_rate_bps);
  latency_s.diagonal().setZero();
  bandwidth_bps.diagonal().setZero();
  set_links({std::move(latency_s), std::move(bandwidth_bps)}, topology);
}

Topology read_topology(const std::filesystem::path& path) {
  return parse_topology(read_file(path, yaml_size_limit), path.string(), path.parent_path());
}

Topology parse_topology(std::string text, const std::string& file, const std::filesystem::path& folder) {
  const YamlDocument document(std::move(text), file);
  const YamlMap map = versioned_map(document, "a topology",
                                    {"version", "name", "gpus", "sites", "devices", "links", "measured",
                                     "fairness", "transport", "calibration"});
  Topology topology;
  const auto name = map.optional("name");
  topology.name = name ? name->text() : std::filesystem::path(file).stem().string();
  if (const auto fairness = map.optional("fairness"))
    topology.fairness = fairness->choice({"equal", "rtt"}) == 0 ? Fairness::equal : Fairness::rtt;
  if (const auto transport = map.optional("transport")) topology.transport = read_transport(*transport);
  if (const auto calibration = map.optional("calibration"))
    topology.calibration = read_calibration(*calibration, [&](const YamlValue& value) {
      return read_named_file(value, folder, yaml_size_limit);
    });
  DeviceInventory inventory = read_device_inventory(map);
  topology.links = read_links(map, inventory, folder);
  if (const auto* measured = std::get_if<MeasuredLinks>(&topology.links))
    if (auto rules = rules_of(*measured, inventory.devices)) topology.links = *std::move(rules);
  topology.gpus = std::move(inventory.gpus);
  topology.sites = std::move(inventory.sites);
  topology.devices = std::move(inventory.devices);
  return topology;
}

}  // namespace dtfm::io
