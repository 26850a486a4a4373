// Imports two n × n CSV matrices with a header of site names: latencies, then bandwidths; row = sender
// (csv_matrix.hpp).
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/importers/network_measurements.hpp"
#include "core/io/text/csv_cells.hpp"
#include "core/io/text/csv_matrix.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

bool is_number(std::string_view text) {
  try {
    parse_decimal(text);
  } catch (const Error&) {
    return false;
  }
  return true;
}

/// The names in the first line, without the corner cell that it has if rows begin with their name.
std::vector<std::string> read_names(const MeasurementFile& file) {
  const std::string_view text = file.text;
  const std::size_t end = std::min(text.find('\n'), text.size());
  std::vector<std::string> names;
  for_each_cell(text.substr(0, end), [&](std::size_t, const Cell& cell) { names.emplace_back(cell.text); });
  const std::string_view rest = text.substr(std::min(end + 1, text.size()));
  bool rows_are_named = false;
  for_each_cell(rest.substr(0, std::min(rest.find('\n'), rest.size())),
                [&](std::size_t index, const Cell& cell) {
                  if (index == 0) rows_are_named = !is_missing_value(cell.text) && !is_number(cell.text);
                });
  if (rows_are_named) names.erase(names.begin());
  if (names.size() < 2 || std::all_of(names.begin(), names.end(), is_number))
    throw Error(position(file.name, 1, 1), "expected a header with the names of at least two sites");
  if (names.size() > max_endpoints)
    throw Error(position(file.name, 1, 1),
                fmt::format("{} sites; at most {} can be imported (for larger matrices, "
                            "use `measured` in a topology file)",
                            names.size(), max_endpoints));
  return names;
}

void check_unit(const Unit& unit, const char* option) {
  if (unit.name.empty()) throw Error(option, "is required: it is the unit of the numbers in the file");
}

}  // namespace

NetworkMeasurements import_matrices(std::span<const MeasurementFile> files,
                                    const MeasurementSettings& settings) {
  check_unit(settings.latency_unit, "--latency-unit");
  check_unit(settings.bandwidth_unit, "--bandwidth-unit");
  const std::vector<std::string> names = read_names(files[0]);
  const Eigen::MatrixXd latency =
      parse_csv_matrix(files[0].text, files[0].name, {names, settings.latency_unit, true});
  const Eigen::MatrixXd bandwidth =
      parse_csv_matrix(files[1].text, files[1].name, {names, settings.bandwidth_unit, false});
  NetworkMeasurements measurements;
  measurements.description = "matrices of latencies and bandwidths";
  for (const std::string& name : names) {
    const std::string site = settings.site_of(name);
    check_endpoint_name(site, position(files[0].name, 1, 1));
    const std::size_t known = measurements.endpoints.size();
    measurements.endpoint(site);
    if (measurements.endpoints.size() == known)
      throw Error(position(files[0].name, 1, 1), "two columns have the same name");
  }
  const int size = static_cast<int>(names.size()), one_way_count = settings.is_round_trip ? 2 : 1;
  for (int from = 0; from < size; ++from)
    for (int to = 0; to < size; ++to)
      if (from != to)
        measurements.samples[{from, to}].push_back(
            {Seconds(latency(from, to) / one_way_count), BitsPerSecond(bandwidth(from, to)), {}, {}});
  return measurements;
}

}  // namespace dtfm::io
