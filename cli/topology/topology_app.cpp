#include "cli/topology/topology_app.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "cli/common/command_line.hpp"
#include "core/io/text/parse_number.hpp"
#include "cli/topology/detect_hosts.hpp"
#include "core/io/readers/device_inventory.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::cli {
namespace {

using Mode = TopologyOptions::Mode;

constexpr const char* footer = R"(Exit codes: 0 done, 1 internal error, 2 bad usage or bad input.

Examples:
  dtfm-topology detect -o lab.yaml                (the GPUs of this machine)
  dtfm-topology check lab.yaml                    (summarizes, and warns of probable mistakes)
  dtfm-topology show lab.yaml --format json
  dtfm-topology import --format iperf3 a-b.json b-a.json --name 10.0.0.1=oregon \
    --name 10.0.0.2=ohio -o lab.yaml
  scripts/measure.sh --hosts hosts.txt -o lab     (measures your machines and imports the result))";

constexpr const char* import_footer = R"(Formats:
  measurements   the files in raw/ written by scripts/measure.sh
  iperf3         output of iperf3 -J, one file per run: one flow gives bandwidth, several capacity
  csv            two square matrices, latencies first, row = sender, names in the first line
  nccl-tests     output of sendrecv_perf or all_reduce_perf, one GPU per host, to which is fitted:
                 t = latency + S/bandwidth, or for an all-reduce of n ranks
                 t = 2 (n-1) (latency + S/(n bandwidth))

The topology is validated before it is written, and is written completely or not at all.

Exit codes: 0 done, 1 internal error, 2 bad usage or bad input.

Examples:
  dtfm-topology import --format measurements lab/raw/*.json -o lab.yaml
  dtfm-topology import --format iperf3 run.json --between oregon ohio --symmetric \
    --latency 24ms --gpu A100-80GB -o two.yaml
  dtfm-topology import --format csv rtt.csv rates.csv --rtt --latency-unit ms \
    --bandwidth-unit Mbps -o lab.yaml
  dtfm-topology import --format nccl-tests sendrecv.txt --between oregon ohio \
    --count oregon=8 --within-site 0.1ms,10Gbps)";

constexpr const char* detect_footer =
    R"(HOST is a machine that ssh reaches without a password, or `local`, which is this machine.
The full form is [SITE/][USER@]HOST[=ADDRESS]: SITE is the site of the host [that of --site], and
ADDRESS the address at which the other hosts reach it.

nvidia-smi must be on PATH of each host; --measure requires iperf3 and ping, and uses
all_reduce_perf of nccl-tests where it is on PATH. Rates that are not measured are those of data
sheets. Comments in the topology say where each number comes from.

--from FOLDER reads these files of FOLDER/HOST, each of which is what a command prints on that host:
{saved}With --slurm, it reads sinfo.txt (sinfo -h -o "%N %G") and switches.txt (scontrol show topology)
of FOLDER.

Exit codes: 0 done, 1 internal error, 2 bad usage or bad input, 130 interrupted.

Examples:
  dtfm-topology detect -o here.yaml
  dtfm-topology detect node-1 node-2 --between-hosts 20us,100Gbps -o lab.yaml
  dtfm-topology detect oregon/me@10.0.0.1 ohio/me@10.1.0.1 --measure -o world.yaml
  dtfm-topology detect --slurm --between-hosts 14us,400Gbps --gpu a100=A100-80GB -o cluster.yaml
  dtfm-topology detect --from saved --between-hosts 20us,100Gbps -o lab.yaml)";

constexpr const char* check_footer =
    R"(Exit codes: 0 valid topology, possibly with warnings, 1 internal error, 2 bad usage or bad input.

Examples:
  dtfm-topology check lab.yaml
  dtfm-topology check lab.yaml --format json | jq '.warnings[]')";

constexpr const char* show_footer =
    R"(A cell is the latency or bandwidth between devices from the site of the row to the site of the
column: low … high if it differs between pairs of devices, - if there is no pair.

Exit codes: 0 done, 1 internal error, 2 bad usage or bad input.

Examples:
  dtfm-topology show lab.yaml
  dtfm-topology show world.yaml --site oregon --site tokyo)";

/// Splits `KEY=VALUE`. Without `=`, the key is empty and the whole text is the value.
std::pair<std::string, std::string> key_and_value(const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return {"", text};
  return {text.substr(0, equals), text.substr(equals + 1)};
}

template <class Value>
auto parse_for_option(const char* option, const std::string& text, Value (*parse)(std::string_view)) {
  try {
    return parse(io::validate_text(text, option));
  } catch (const Error& complaint) {
    throw complaint.where().empty() ? Error(option, complaint.what()) : complaint;
  }
}

io::LinkSettings parse_link(const char* option, const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos)
    throw Error(option,
                fmt::format("expected LATENCY,BANDWIDTH such as 5us,300Gbps; found {}", io::quote(text)));
  const io::LinkSettings link{parse_for_option(option, text.substr(0, comma), io::parse_seconds),
                              parse_for_option(option, text.substr(comma + 1), io::parse_rate)};
  if (link.latency < Seconds(0) || link.bandwidth <= BitsPerSecond(0))
    throw Error(option, "expected a latency that is not negative and a bandwidth above zero");
  return link;
}

void add_input_options(OptionList& list, TopologyOptions& options) {
  begin_group(list, heading::inputs);
  add_argument(list, "FILE", "files with measurements", options.files);
  Option& format = add_option(list, "--format", "FORMAT", "measurements, iperf3, csv or nccl-tests (below)",
                              [&](const std::string& text) { options.measurement_format = text; });
  std::vector<std::string> names;
  for (const io::MeasurementFormat& it : io::measurement_formats()) names.emplace_back(it.name);
  set_completion_values(format, names);
  add_pair_option(list, "--between", "FROM TO", "sender and receiver of a single file (iperf3, nccl-tests)",
                  [&](const std::string& from, const std::string& to) {
                    options.measurements.between = {io::validate_text(from, "--between"),
                                                    io::validate_text(to, "--between")};
                  });
  add_repeatable_option(list, "--name", "HOST=SITE", "site name for a host in the files; may be repeated",
                        [&](const std::string& text) {
                          const auto [host, site] = key_and_value(io::validate_text(text, "--name"));
                          if (host.empty())
                            throw Error("--name", "expected HOST=SITE; found " + io::quote(text));
                          options.measurements.names[host] = site;
                        });
}

void add_device_options(OptionList& list, TopologyOptions& options) {
  begin_group(list, "Devices");
  add_repeatable_option(list, "--gpu", "[SITE=]NAME",
                        "GPU model of all sites, or of one site [none]; may be repeated",
                        [&](const std::string& text) {
                          const auto [site, gpu] = key_and_value(io::validate_text(text, "--gpu"));
                          (site.empty() ? options.inventory.gpu : options.inventory.gpu_of[site]) = gpu;
                        });
  add_repeatable_option(list, "--count", "[SITE=]N", "hosts per site, or of one site [1]; may be repeated",
                        [&](const std::string& text) {
                          const auto [site, number] = key_and_value(io::validate_text(text, "--count"));
                          const int count = io::parse_whole_number("--count", number, 1, io::max_devices);
                          if (site.empty())
                            options.inventory.hosts = count;
                          else
                            options.inventory.hosts_of[site] = count;
                        });
  add_option(list, "--gpus-per-host", "N", "GPUs per host [as measured, or 1]", [&](const std::string& text) {
    options.inventory.gpus_per_host = io::parse_whole_number("--gpus-per-host", text, 1, io::max_devices);
  });
  add_option(
      list, "--within-site", "LATENCY,BANDWIDTH", "link between hosts of a site with several hosts",
      [&](const std::string& text) { options.inventory.within_site = parse_link("--within-site", text); });
  add_option(
      list, "--within-host", "LATENCY,BANDWIDTH", "link between GPUs of a host with several GPUs",
      [&](const std::string& text) { options.inventory.within_host = parse_link("--within-host", text); });
}

void add_measurement_options(OptionList& list, TopologyOptions& options) {
  begin_group(list, "Measurements");
  add_option(list, "--latency", "TIME", "one-way latency [that in iperf3 or nccl-tests files]",
             [&](const std::string& text) {
               options.measurements.latency = parse_for_option("--latency", text, io::parse_seconds);
               if (*options.measurements.latency < Seconds(0))
                 throw Error("--latency", "must not be negative; found " + io::quote(text));
             });
  add_option(list, "--latency-unit", "UNIT", "unit of the latency matrix: ns, us, ms or s",
             [&](const std::string& text) {
               options.measurements.latency_unit = parse_for_option("--latency-unit", text, io::time_unit);
             });
  add_option(list, "--bandwidth-unit", "UNIT", "unit of the bandwidth matrix: Mbps, Gbps, MB/s, …",
             [&](const std::string& text) {
               options.measurements.bandwidth_unit =
                   parse_for_option("--bandwidth-unit", text, io::rate_unit);
             });
  add_flag(list, "--rtt", "the latency matrix contains round-trip times", options.measurements.is_round_trip);
  add_flag(list, "--symmetric", "uses the other direction where one was not measured",
           options.measurements.is_symmetric);
  add_option(list, "--collective", "sendrecv|all_reduce",
             "nccl-tests: the collective, if the output does not name it", [&](const std::string& text) {
               if (text != "sendrecv" && text != "all_reduce")
                 throw Error("--collective", "expected sendrecv or all_reduce; found " + io::quote(text));
               options.measurements.collective = text;
             });
}

void add_host_options(OptionList& command, DetectOptions& options) {
  begin_group(command, heading::inputs);
  add_argument(command, "HOST", "hosts whose GPUs are detected [this machine]", options.host_texts);
  add_option(command, "--site", "NAME", "site of the hosts given without SITE/ [cluster]",
             [&](const std::string& text) { options.default_site = io::validate_text(text, "--site"); });
  add_flag(command, "--slurm", "uses the nodes with GPUs that sinfo lists, instead of HOST",
           options.uses_slurm);
  add_flag(command, "--sites-by-switch",
           "with --slurm: makes each leaf switch (scontrol show topology) a site", options.sites_by_switch);
  add_option(command, "--from", "FOLDER", "reads saved outputs instead of running commands (below)",
             [&](const std::string& text) { options.from = io::validate_text(text, "--from"); });
  add_repeatable_option(
      command, "--nccl-topology", "[HOST=]FILE",
      "topology file that NCCL wrote on a host, in a job with NCCL_TOPO_DUMP_FILE=FILE; may be repeated",
      [&](const std::string& text) {
        auto [host, file] = key_and_value(io::validate_text(text, "--nccl-topology"));
        options.nccl_topologies.push_back({std::move(host), std::move(file)});
      });
  add_option(command, "--timeout", "SECONDS", "time limit of each command on a host, in seconds [30]",
             [&](const std::string& text) {
               options.timeout_s = io::parse_whole_number("--timeout", text, 1, 3600);
             });
}

void add_detected_link_options(OptionList& command, DetectOptions& options) {
  begin_group(command, "Links");
  add_flag(command, "--measure", "measures the links between hosts, and inside hosts with nccl-tests",
           options.measures);
  add_option(
      command, "--measurements", "FOLDER", "keeps what --measure finds; what is there is not measured again",
      [&](const std::string& text) { options.measurements = io::validate_text(text, "--measurements"); });
  const auto add_link = [&](const char* option, const char* help, std::optional<io::LinkSettings>& link) {
    add_option(command, option, "LATENCY,BANDWIDTH", help,
               [option, &link](const std::string& text) { link = parse_link(option, text); });
  };
  add_link("--between-hosts", "link between hosts, if not measured", options.settings.between_hosts);
  add_link("--between-sites", "link between hosts of different sites [--between-hosts]",
           options.settings.between_sites);
  add_link("--within-host", "link between the GPUs of a host [as detected]", options.settings.within_host);
}

void add_detect_options(OptionList& command, DetectOptions& options) {
  add_host_options(command, options);
  add_repeatable_option(command, "--gpu", "[TYPE=]NAME",
                        "name in configs/gpus.yaml of all GPUs, or of those that nvidia-smi or Slurm reports "
                        "as TYPE [looked up]; may be repeated",
                        [&](const std::string& text) {
                          const auto [type, gpu] = key_and_value(io::validate_text(text, "--gpu"));
                          options.settings.gpu_of[type] = gpu;
                        });
  add_detected_link_options(command, options);
}

/// --help of detect, with the files that --from reads.
std::string detect_help() {
  std::string text = detect_footer;
  const std::string mark = "{saved}";
  return text.replace(text.find(mark), mark.size(), saved_output_help());
}

void add_detect_command(OptionList& list, TopologyOptions& options) {
  OptionList& command =
      add_command(list, "detect", "creates a topology from the GPUs of hosts, or of a Slurm cluster",
                  detect_help().c_str(), [&] { options.mode = Mode::detect; });
  add_detect_options(command, options.detect);
  begin_group(command, heading::output);
  add_option(command, "--topology-name", "NAME", "name of the topology [name of the output file]",
             [&](const std::string& text) { options.name = io::validate_text(text, "--topology-name"); });
  add_option(command, "-o,--output", "FILE",
             "writes the topology (YAML) and prints a summary [topology to stdout]",
             [&](const std::string& text) { options.output = text; });
  add_format_option(command, options.format);
  add_general_options(command, options.color, options.quiet, "prints only warnings");
}

void add_import_command(OptionList& list, TopologyOptions& options) {
  OptionList& command = add_command(list, "import", "creates a topology from network measurements",
                                    import_footer, [&] { options.mode = Mode::import; });
  add_input_options(command, options);
  add_measurement_options(command, options);
  add_device_options(command, options);
  begin_group(command, heading::output);
  add_option(command, "--topology-name", "NAME", "name of the topology [name of the output file]",
             [&](const std::string& text) { options.name = io::validate_text(text, "--topology-name"); });
  add_option(command, "-o,--output", "FILE",
             "writes the topology (YAML) and prints a summary [topology to stdout]",
             [&](const std::string& text) { options.output = text; });
  add_option(command, "--summary", "text|json", "format of the summary that -o prints [text]",
             [&](const std::string& text) { options.format = parse_output_format("--summary", text); });
  add_general_options(command, options.color, options.quiet, "prints only warnings");
}

void add_read_command(OptionList& list, Mode mode, TopologyOptions& options) {
  const auto choose = [&options, mode] { options.mode = mode; };
  OptionList& command =
      mode == Mode::check
          ? add_command(list, "check", "validates a topology and prints a summary", check_footer, choose)
          : add_command(list, "show", "prints the devices, and latency and bandwidth between all sites",
                        show_footer, choose);
  add_argument(command, "TOPOLOGY", "devices and the network between them (YAML)", options.files);
  begin_group(command, heading::output);
  if (mode == Mode::show)
    add_repeatable_option(command, "--site", "SITE", "site to show [all]; may be repeated",
                          [&](const std::string& text) { options.sites.push_back(text); });
  add_format_option(command, options.format);
  add_general_options(command, options.color, options.quiet,
                      mode == Mode::check ? "prints only warnings" : "prints no notes");
}

Error missing(const std::string& what, const char* command) {
  return Error("", fmt::format("{} (see dtfm-topology {} --help)", what, command));
}

/// Parses the hosts, and throws Error for options that exclude or require each other.
void check_detect_options(DetectOptions& options) {
  for (const std::string& text : options.host_texts)
    options.hosts.push_back(parse_host_argument(io::validate_text(text, "HOST")));
  const auto exclude = [](bool one, bool other, const char* option, const char* with) {
    if (one && other) throw Error(option, fmt::format("cannot be combined with {}", with));
  };
  exclude(options.uses_slurm, !options.hosts.empty(), "--slurm", "HOST");
  exclude(options.uses_slurm, !options.nccl_topologies.empty(), "--nccl-topology", "--slurm");
  exclude(options.measures, options.from.has_value(), "--measure", "--from");
  exclude(options.measures, options.settings.between_hosts || options.settings.between_sites, "--measure",
          "--between-hosts or --between-sites");
  if (options.sites_by_switch && !options.uses_slurm) throw Error("--sites-by-switch", "requires --slurm");
  if (options.measurements && !options.measures) throw Error("--measurements", "requires --measure");
}

void check_topology_options(TopologyOptions& options) {
  if (options.mode == Mode::none)
    throw Error("", "expected detect, import, check or show (see dtfm-topology --help)");
  if (options.mode == Mode::detect) return check_detect_options(options.detect);
  if (options.mode != Mode::import) {
    const char* command = options.mode == Mode::check ? "check" : "show";
    if (options.files.size() != 1)
      throw missing(fmt::format("expected one TOPOLOGY; found {}", options.files.size()), command);
    return;
  }
  if (options.measurement_format.empty())
    throw missing("--format is missing: name the format of the files", "import");
  if (options.files.empty()) throw missing("FILE is missing: name the files to import", "import");
}

}  // namespace

void add_topology_options(OptionList& list, TopologyOptions& options) {
  set_texts(
      list, "dtfm-topology",
      "Creates a topology from the GPUs of hosts or from network measurements, validates one, or prints one "
      "as tables.",
      footer);
  begin_group(list, heading::general);
  add_color_option(list, options.color);
  add_version_option(list, "dtfm-topology " DTFM_VERSION);
  add_help_option(list);
  add_detect_command(list, options);
  add_import_command(list, options);
  add_read_command(list, Mode::check, options);
  add_read_command(list, Mode::show, options);
}

std::optional<TopologyOptions> parse_topology_options(int argc, char** argv) {
  OptionList list;
  TopologyOptions options;
  add_topology_options(list, options);
  if (!parse_command_line(list, argc, argv)) return std::nullopt;
  check_topology_options(options);
  return options;
}

}  // namespace dtfm::cli
