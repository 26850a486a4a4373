#include "cli/topology/topology_command.hpp"

#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/interrupt.hpp"
#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_error.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/write_output.hpp"
#include "cli/topology/detect_command.hpp"
#include "cli/topology/topology_check.hpp"
#include "cli/topology/topology_table.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "core/io/text/atomic_file.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::cli {
namespace {

bool begins_as_topology(const std::string& begin) {
  return begin.starts_with("#") || begin.starts_with("version") || begin.starts_with("name");
}

/// The name of the topology: by default that of its file, if valid, else `other`.
std::string topology_name(const TopologyOptions& options, const std::string& output,
                          const std::string& other) {
  if (options.name) return *options.name;
  const std::string stem = std::filesystem::path(output).stem().string();
  return !io::is_stdout(output) && io::is_valid_topology_name(stem) ? stem : other;
}

/// Throws Error for an option that the chosen format does not use.
void reject_irrelevant_options(const io::MeasurementFormat& format, const io::MeasurementSettings& settings) {
  const bool is_csv = format.name == "csv", is_nccl = format.name == "nccl-tests",
             is_iperf3 = format.name == "iperf3";
  const auto refuse = [](bool is_given, bool is_used, const char* option, const char* formats) {
    if (is_given && !is_used) throw Error(option, fmt::format("requires --format {}", formats));
  };
  refuse(settings.between.has_value(), is_iperf3 || is_nccl, "--between", "iperf3 or nccl-tests");
  refuse(!settings.collective.empty(), is_nccl, "--collective", "nccl-tests");
  refuse(settings.is_round_trip, is_csv, "--rtt", "csv");
  refuse(!settings.latency_unit.name.empty(), is_csv, "--latency-unit", "csv");
  refuse(!settings.bandwidth_unit.name.empty(), is_csv, "--bandwidth-unit", "csv");
  refuse(settings.latency.has_value(), is_iperf3 || is_nccl, "--latency", "iperf3 or nccl-tests");
  refuse(!settings.names.empty(), format.name != "measurements", "--name", "iperf3, nccl-tests or csv");
}

void print_summary(const Topology& topology, const TopologyOptions& options) {
  const std::vector<std::string> warnings = topology_warnings(topology);
  print_result(options.format == OutputFormat::json
                   ? io::format_json(topology_check_json(topology, warnings))
                   : format_topology_check(topology, warnings, options.quiet),
               options.color);
}

/// Writes the file before printing: it must exist even if stdout is closed.
int import_topology(const TopologyOptions& options) {
  const io::MeasurementFormat& format =
      io::find_row(io::measurement_formats(), options.measurement_format, "--format", "no format");
  reject_irrelevant_options(format, options.measurements);
  const std::string output = options.output.value_or("-");
  check_outputs(options.files, std::array{output});
  check_kind(output, begins_as_topology, "topology");
  const std::vector<std::filesystem::path> paths(options.files.begin(), options.files.end());
  const io::NetworkMeasurements measurements =
      io::import_network_measurements(format, paths, options.measurements);
  io::InventorySettings inventory = options.inventory;
  inventory.name = topology_name(options, output, inventory.name);
  const std::string text =
      io::format_topology(measurements, io::summarize_links(measurements, options.measurements), inventory);
  write_output_file(output, text);
  if (io::is_stdout(output)) return exit_code::done;
  print_summary(io::parse_topology(text, output, {}), options);
  return exit_code::done;
}

/// Until there is a topology to write, an interrupt ends all programs that were started.
int detect_and_write(const TopologyOptions& options) {
  const std::string output = options.output.value_or("-");
  std::vector<std::string> inputs;
  for (const HostFile& it : options.detect.nccl_topologies) inputs.push_back(it.file);
  check_outputs(inputs, std::array{output});
  check_kind(output, begins_as_topology, "topology");
  std::string text;
  {
    InterruptWatch watch("a topology");
    watch.keep_result();
    try {
      text = detect_topology(options.detect, topology_name(options, output, "detected"), options.quiet,
                             watch.stop());
    } catch (const WorkStopped&) {
      print_error("dtfm-topology: interrupted before there was a topology\n");
      return exit_code::interrupted;
    }
  }
  write_output_file(output, text);
  if (!io::is_stdout(output)) print_summary(io::parse_topology(text, output, {}), options);
  return exit_code::done;
}

int check_topology(const TopologyOptions& options) {
  print_summary(io::read_topology(options.files.front()), options);
  return exit_code::done;
}

int show_topology(const TopologyOptions& options) {
  const Topology topology = io::read_topology(options.files.front());
  const SiteTable table = site_table(topology, options.sites);
  print_result(options.format == OutputFormat::json ? io::format_json(site_table_json(topology, table))
                                                    : format_site_table(topology, table),
               options.color);
  return exit_code::done;
}

}  // namespace

int run_topology_command(const TopologyOptions& options) {
  switch (options.mode) {
    case TopologyOptions::Mode::detect:
      return detect_and_write(options);
    case TopologyOptions::Mode::import:
      return import_topology(options);
    case TopologyOptions::Mode::check:
      return check_topology(options);
    case TopologyOptions::Mode::show:
      return show_topology(options);
    case TopologyOptions::Mode::none:
      break;
  }
  return exit_code::internal_error;
}

}  // namespace dtfm::cli
