#include "cli/topology/topology_command.hpp"

#include <array>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/common/main_guard.hpp"
#include "cli/common/output_check.hpp"
#include "cli/common/print_result.hpp"
#include "cli/common/put_out.hpp"
#include "cli/topology/topology_check.hpp"
#include "cli/topology/topology_table.hpp"
#include "planner/io/text/atomic_file.hpp"
#include "planner/io/text/json_text.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/readers/topology_reader.hpp"

namespace dtfm::cli {
namespace {

bool begins_as_topology(const std::string& begin) {
  return begin.starts_with("#") || begin.starts_with("version") || begin.starts_with("name");
}

/// What the user says of the machines; the topology is called like its file, if that can be a name.
io::FleetSettings fleet_of(const TopologyOptions& options, const std::string& output) {
  io::FleetSettings fleet = options.fleet;
  const std::string stem = std::filesystem::path(output).stem().string();
  if (options.name)
    fleet.name = *options.name;
  else if (!io::is_stdout(output) && io::is_topology_name(stem))
    fleet.name = stem;
  return fleet;
}

/// An option that says nothing to the chosen format is a mistake.
void refuse_others(const io::SurveyFormat& format, const io::SurveySettings& settings) {
  const bool is_csv = format.name == "csv", is_nccl = format.name == "nccl-tests",
             is_iperf3 = format.name == "iperf3";
  const auto refuse = [](bool is_given, bool is_used, const char* option, const char* formats) {
    if (is_given && !is_used) throw Error(option, fmt::format("is for --format {}", formats));
  };
  refuse(settings.between.has_value(), is_iperf3 || is_nccl, "--between", "iperf3 and nccl-tests");
  refuse(!settings.collective.empty(), is_nccl, "--collective", "nccl-tests");
  refuse(settings.is_round_trip, is_csv, "--rtt", "csv");
  refuse(!settings.latency_unit.name.empty(), is_csv, "--latency-unit", "csv");
  refuse(!settings.bandwidth_unit.name.empty(), is_csv, "--bandwidth-unit", "csv");
  refuse(settings.latency.has_value(), is_iperf3 || is_nccl, "--latency", "iperf3 and nccl-tests");
  refuse(!settings.names.empty(), format.name != "measurements", "--name", "iperf3, nccl-tests and csv");
}

void print_summary(const Topology& topology, const TopologyOptions& options) {
  const std::vector<std::string> warnings = warnings_of(topology);
  print_result(options.format == OutputFormat::json ? io::json_text(check_json(topology, warnings))
                                                    : check_text(topology, warnings, options.quiet),
               options.color);
}

/// The file first: it must be there even if nobody reads stdout.
int import_topology(const TopologyOptions& options) {
  const io::SurveyFormat& format = io::row_named(io::survey_formats(), options.survey_format, "--format", "no format");
  refuse_others(format, options.survey);
  const std::string output = options.output.value_or("-");
  check_outputs(options.files, std::array{output});
  check_kind(output, begins_as_topology, "topology");
  const std::vector<std::filesystem::path> paths(options.files.begin(), options.files.end());
  const io::Survey survey = io::import_survey(format, paths, options.survey);
  const std::string text =
      io::topology_text(survey, io::survey_links(survey, options.survey), fleet_of(options, output));
  put_into(output, text);
  if (io::is_stdout(output)) return exit_code::done;
  print_summary(io::parse_topology(text, output, {}), options);
  return exit_code::done;
}

int check_topology(const TopologyOptions& options) {
  print_summary(io::read_topology(options.files.front()), options);
  return exit_code::done;
}

int show_topology(const TopologyOptions& options) {
  const Topology topology = io::read_topology(options.files.front());
  const SiteTable table = site_table(topology, options.sites);
  print_result(options.format == OutputFormat::json ? io::json_text(table_json(topology, table))
                                                    : table_text(topology, table),
               options.color);
  return exit_code::done;
}

}  // namespace

int run_topology_command(const TopologyOptions& options) {
  switch (options.mode) {
    case TopologyOptions::Mode::import:
      return import_topology(options);
    case TopologyOptions::Mode::check:
      return check_topology(options);
    case TopologyOptions::Mode::show:
      return show_topology(options);
    case TopologyOptions::Mode::none:
      break;
  }
  return exit_code::our_bug;
}

}  // namespace dtfm::cli
