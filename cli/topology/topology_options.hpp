// Options of dtfm-topology.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "cli/topology/detect_options.hpp"
#include "core/io/importers/network_measurements.hpp"
#include "core/io/writers/topology_writer.hpp"

namespace dtfm::cli {

struct TopologyOptions {
  enum class Mode { none, detect, import, check, show };

  Mode mode = Mode::none;
  std::vector<std::string> files;  // files to import; for check and show one topology
  std::vector<std::string> sites;  // names of sites to show; empty: all
  std::string measurement_format;  // of the files to import
  io::MeasurementSettings measurements;
  io::InventorySettings inventory;
  DetectOptions detect;
  std::optional<std::string> name;    // of the topology
  std::optional<std::string> output;  // file; if not given, the topology goes to stdout
  OutputFormat format = OutputFormat::text;
  ColorChoice color = ColorChoice::automatic;
  bool quiet = false;
};

}  // namespace dtfm::cli
