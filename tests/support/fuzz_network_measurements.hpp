// Shared code of the fuzzers of network-measurement importers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/io/importers/network_measurements.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/writers/topology_writer.hpp"

namespace dtfm {
using namespace io;

/// Checks that any bytes, split into files by a line of dashes, give either an Error or a topology that reads
/// back unchanged (which the writer asserts).
template <class Import>
void fuzz_network_measurements(const Import& import, const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view divider = "\n----\n";
  MeasurementSettings settings;
  settings.is_symmetric = true;
  settings.latency_unit = time_unit("ms");
  settings.bandwidth_unit = rate_unit("Mbps");
  InventorySettings inventory;
  inventory.within_host = LinkSettings{Seconds(1e-5), BitsPerSecond(1e9)};
  try {
    const std::string text = validate_text(std::string(reinterpret_cast<const char*>(data), size), "file");
    const std::size_t end = text.find(divider);
    std::vector<MeasurementFile> files{{"first", text.substr(0, end)}};
    files.push_back({"second", end == std::string::npos ? text : text.substr(end + divider.size())});
    const NetworkMeasurements measurements = import(files, settings);
    format_topology(measurements, summarize_links(measurements, settings), inventory);
  } catch (const Error&) {
  }
}

}  // namespace dtfm
