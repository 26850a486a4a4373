#include "cli/topology/detect_hosts.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unistd.h>

#include "cli/common/print_error.hpp"
#include "cli/topology/run_programs.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/text/control_characters.hpp"
#include "core/io/text/format_number.hpp"
#include "core/io/text/input_errors.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"
#include "core/io/importers/output_lines.hpp"

namespace dtfm::cli {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t max_output = std::size_t{4} << 20;

/// A command that is run on each host, and what its output is for. Parsers throw Error at `where`.
struct HostCommand {
  const char* file;  // in the folder of a host, where --from looks for a saved output
  std::vector<std::string> words;
  bool is_required;  // otherwise the topology can do without it
  void (*parse)(const std::string& text, const std::string& where, io::DetectedHost& host);

  std::string line() const { return fmt::format("{}", fmt::join(words, " ")); }
};

const std::vector<HostCommand>& host_commands() {
  using io::DetectedHost;
  using Text = const std::string&;
  static const std::vector<HostCommand> commands{
      {"gpus.csv",
       {"nvidia-smi", "--query-gpu=index,name,memory.total,pci.bus_id,uuid", "--format=csv,noheader,nounits"},
       true,
       [](Text text, Text where, DetectedHost& host) { host.gpus = io::parse_gpu_query(text, where); }},
      {"topo.txt",
       {"nvidia-smi", "topo", "-m"},
       true,
       [](Text text, Text where, DetectedHost& host) { host.matrix = io::parse_gpu_matrix(text, where); }},
      {"pcie.csv",
       {"nvidia-smi", "--query-gpu=pcie.link.gen.max,pcie.link.width.max", "--format=csv,noheader,nounits"},
       false,
       [](Text text, Text where, DetectedHost& host) {
         auto slots = io::parse_pcie_query(text, where);
         if (slots.size() != host.gpus.size())
           throw Error(where, fmt::format("lists {}, but the host has {}",
                                          io::format_count(static_cast<long long>(slots.size()), "PCIe slot"),
                                          io::format_count(static_cast<long long>(host.gpus.size()), "GPU")));
         host.slots = std::move(slots);
       }},
      {"list.txt",
       {"nvidia-smi", "-L"},
       false,
       [](Text text, Text where, DetectedHost& host) {
         host.instances = io::parse_mig_instances(text, where);
       }},
      {"nvlink.txt",
       {"nvidia-smi", "nvlink", "-s"},
       false,
       [](Text text, Text where, DetectedHost& host) {
         host.nvlinks = io::parse_nvlink_status(text, where);
       }},
      {"cpu.txt", {"env", "LC_ALL=C", "lscpu"}, false, [](Text text, Text where, DetectedHost& host) {
         host.cpu = io::parse_lscpu(text, where);
       }}};
  return commands;
}

/// The last line with text, for a message.
std::string last_line(const std::string& text) {
  std::string last;
  io::for_each_line(text, [&](std::size_t, std::string_view line) {
    if (const auto words = io::trimmed(line); !words.empty()) last = words;
  });
  constexpr std::size_t max_length = 200;
  if (last.size() > max_length) last.resize(max_length);
  return io::escape_control_characters(last);
}

bool is_local(const HostArgument& host) {
  return host.destination == "local";
}

std::string place(const HostArgument& host) {
  return is_local(host) ? "this host" : host.name;
}

/// The command line by which a user sees the same output.
std::string shown_command(const HostArgument& host, const std::string& line) {
  return is_local(host) ? line : fmt::format("ssh {} {}", host.destination, line);
}

/// Throws Error, which says what to do, unless the program ended well.
void check_run(const HostArgument& host, const std::string& line, const ProgramRun& run, double timeout_s) {
  constexpr int not_found_status = 127, ssh_status = 255;
  const std::string where = place(host);
  const bool by_ssh = !is_local(host);
  if (run.end == ProgramEnd::not_found && by_ssh)
    throw Error(where, fmt::format("ssh cannot be run ({}): install OpenSSH's client", run.errors));
  if (run.end == ProgramEnd::not_found || (run.end == ProgramEnd::exited && run.status == not_found_status))
    throw Error(
        where, fmt::format("nvidia-smi is not on PATH{}: install NVIDIA's driver, {}", by_ssh ? " there" : "",
                           by_ssh ? "or leave this host out"
                                  : "or name the hosts that have GPUs (dtfm-topology detect HOST…)"));
  const std::string said = last_line(run.errors.empty() ? run.output : run.errors);
  if (run.end == ProgramEnd::timed_out)
    throw Error(where,
                fmt::format("`{}` timed out after {:.6g} s: check whether `{}` hangs, or raise --timeout",
                            line, timeout_s, shown_command(host, "nvidia-smi")));
  if (run.end == ProgramEnd::too_long)
    throw Error(where, fmt::format("`{}` printed more than {} MiB: check what `{}` prints", line,
                                   max_output >> 20, shown_command(host, line)));
  if (run.end == ProgramEnd::killed)
    throw Error(where, fmt::format("`{}` was killed: run `{}` to see why", line, shown_command(host, line)));
  if (by_ssh && run.status == ssh_status)
    throw Error(where, fmt::format("ssh failed{}{}: make `ssh {} true` work without a password",
                                   said.empty() ? "" : ": ", said, host.destination));
  if (run.status != 0)
    throw Error(
        where,
        fmt::format("`{}` failed with exit status {}{}{}: check that the driver is loaded and sees the "
                    "GPUs (`{}`)",
                    line, run.status, said.empty() ? "" : ": ", said, shown_command(host, "nvidia-smi")));
}

/// Calls the parser, to whose Error it adds what to do.
void parse_output(const HostCommand& command, const std::string& text, const std::string& where,
                  const std::string& advice, io::DetectedHost& host) {
  try {
    command.parse(io::validate_text(io::without_styles(text), where), where, host);
  } catch (const Error& error) {
    throw Error(error.where(), fmt::format("{} ({})", error.problem(), advice));
  }
}

/// The results of a host's commands, in the order of host_commands().
void use_runs(const HostArgument& argument, std::span<const ProgramRun> runs, const DetectOptions& options,
              io::DetectedHost& host, std::vector<std::string>& notes) {
  for (std::size_t i = 0; i < host_commands().size(); ++i) {
    const HostCommand& command = host_commands()[i];
    // Some virtual machines cannot print the matrix.
    const bool is_needed =
        command.is_required && (i == 0 || (host.gpus.size() > 1 && !options.settings.within_host));
    const std::string line = command.line(), where = fmt::format("{}: {}", place(argument), line);
    const bool succeeded = runs[i].end == ProgramEnd::exited && runs[i].status == 0;
    if (!succeeded && !is_needed && runs[i].end != ProgramEnd::timed_out) continue;
    try {
      check_run(argument, line, runs[i], options.timeout_s);
      parse_output(command, runs[i].output, where,
                   fmt::format("see what `{}` prints", shown_command(argument, line)), host);
    } catch (const Error& error) {
      if (is_needed && i == 0) throw;
      if (is_needed)
        throw Error(error.where(),
                    error.problem() + ", or give the links with --within-host LATENCY,BANDWIDTH");
      notes.push_back(error.what());
    }
  }
}

void read_saved_host(const HostArgument& argument, const DetectOptions& options, io::DetectedHost& host) {
  const fs::path folder = *options.from;
  for (const HostCommand& command : host_commands()) {
    const fs::path path = folder / argument.name / command.file;
    const bool is_needed =
        command.is_required && host.gpus.size() != 1 && (host.gpus.empty() || !options.settings.within_host);
    if (!fs::exists(path)) {
      if (is_needed)
        throw Error(path.string(), fmt::format("is missing: run `{} > {}` on {}", command.line(),
                                               command.file, argument.name));
      continue;
    }
    try {
      parse_output(command, io::read_file(path, max_output), path.string(),
                   fmt::format("save the output of `{}` again{}", command.line(),
                               command.is_required ? "" : ", or delete this file, which is optional"),
                   host);
    } catch (const Error&) {
      if (is_needed || !command.is_required) throw;
    }
  }
  if (const fs::path nccl = folder / argument.name / "nccl.xml"; fs::exists(nccl))
    host.nccl = io::parse_nccl_topology(io::validate_text(io::read_file(nccl, max_output), nccl.string()),
                                        nccl.string());
}

/// The end of a PCI address in lower case: the driver writes the domain with eight digits, NCCL with four.
std::string short_bus_id(std::string text) {
  constexpr std::size_t length = 12;
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text.size() > length ? text.substr(text.size() - length) : text;
}

/// Throws Error if the file describes another host.
void check_nccl_topology(const io::DetectedHost& host, const std::string& where) {
  for (const io::NcclGpu& gpu : host.nccl->gpus) {
    const auto same = [&](const io::QueriedGpu& it) { return it.index == gpu.index; };
    const auto found = std::find_if(host.gpus.begin(), host.gpus.end(), same);
    if (found == host.gpus.end() || short_bus_id(found->bus_id) != short_bus_id(gpu.bus_id))
      throw Error(where,
                  fmt::format("GPU {} at {} is not one of {}: give the file that NCCL wrote on that host",
                              gpu.index, io::quote(gpu.bus_id), host.name));
  }
}

void read_nccl_topologies(const DetectOptions& options, std::vector<io::DetectedHost>& hosts) {
  for (const HostFile& given : options.nccl_topologies) {
    if (given.host.empty() && hosts.size() > 1)
      throw Error("--nccl-topology", "expected HOST=FILE, because there are several hosts");
    const auto host = std::find_if(hosts.begin(), hosts.end(), [&](const auto& it) {
      return it.name == given.host || given.host.empty();
    });
    if (host == hosts.end()) {
      std::vector<std::string_view> names;
      for (const io::DetectedHost& it : hosts) names.push_back(it.name);
      io::fail_unknown("--nccl-topology", "unknown host", given.host, names);
    }
    host->nccl = io::parse_nccl_topology(io::validate_text(io::read_file(given.file, max_output), given.file),
                                         given.file);
    check_nccl_topology(*host, given.file);
  }
}

io::DetectedHost new_host(const HostArgument& argument) {
  io::DetectedHost host;
  host.site = argument.site;
  host.name = argument.name;
  return host;
}

void run_on_hosts(const std::vector<HostArgument>& arguments, const DetectOptions& options, bool quiet,
                  const StopFunction& stop, std::vector<io::DetectedHost>& hosts) {
  const std::size_t per_host = host_commands().size();
  std::vector<ProgramRun> runs;
  for (const HostArgument& argument : arguments)
    for (const HostCommand& command : host_commands())
      runs.push_back({command_on_host(argument, command.words)});
  RunLimits limits;
  limits.timeout_s = options.timeout_s;
  limits.max_output = max_output;
  run_programs(runs, limits, stop, [&](std::size_t ended) {
    if (!quiet && arguments.size() > 1 && ended % (10 * per_host) == 0)
      print_error(fmt::format("dtfm-topology: {} of {} commands on {}\n", ended, runs.size(),
                              io::format_count(static_cast<long long>(arguments.size()), "host")));
  });
  io::InputErrors errors;
  std::vector<std::string> notes;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    try {
      use_runs(arguments[i], std::span(runs).subspan(i * per_host, per_host), options, hosts[i], notes);
    } catch (const Error& error) {
      errors.add(error);
    }
  }
  errors.throw_if_any();
  for (const std::string& note : notes)
    if (!quiet)
      print_error(
          fmt::format("dtfm-topology: note: not used: {}\n", io::escape_control_characters(note, "")));
}

/// The text that a command of Slurm prints, or that was saved.
std::string slurm_output(const DetectOptions& options, const char* file,
                         const std::vector<std::string>& words, const StopFunction& stop,
                         std::string& where) {
  const std::string line = fmt::format("{}", fmt::join(words, " "));
  if (options.from) {
    const fs::path path = fs::path(*options.from) / file;
    where = path.string();
    if (!fs::exists(path))
      throw Error(where, fmt::format("is missing: run `{} > {}` on a node of the cluster", line, file));
    return io::validate_text(io::read_file(path, max_output), where);
  }
  where = line;
  std::array<ProgramRun, 1> run{ProgramRun{words}};
  RunLimits limits;
  limits.timeout_s = options.timeout_s;
  limits.max_output = max_output;
  run_programs(run, limits, stop);
  const std::string said = last_line(run[0].errors);
  if (run[0].end == ProgramEnd::not_found)
    throw Error("--slurm",
                fmt::format("{} is not on PATH: run this on a login node of the cluster, or name the hosts "
                            "instead of --slurm",
                            words.front()));
  if (run[0].end == ProgramEnd::timed_out)
    throw Error("--slurm",
                fmt::format("`{}` timed out after {:.6g} s: check with `sinfo` that Slurm's controller "
                            "answers, or raise --timeout",
                            line, options.timeout_s));
  if (run[0].end != ProgramEnd::exited || run[0].status != 0)
    throw Error("--slurm", fmt::format("`{}` failed{}{}: check with `sinfo` that Slurm's controller answers",
                                       line, said.empty() ? "" : ": ", said));
  return io::validate_text(run[0].output, where);
}

}  // namespace

std::vector<std::string> command_on_host(const HostArgument& host, const std::vector<std::string>& words) {
  if (is_local(host)) return words;
  return {"ssh",
          "-n",
          "-o",
          "BatchMode=yes",
          "-o",
          "ConnectTimeout=10",
          "--",
          host.destination,
          fmt::format("{}", fmt::join(words, " "))};
}

std::string saved_output_help() {
  std::string text;
  for (const HostCommand& command : host_commands())
    text += fmt::format("  {:<11} {}{}\n", command.file, command.line(),
                        command.is_required ? "" : " (optional)");
  text += fmt::format("  {:<11} {}\n", "nccl.xml", "file that NCCL writes to NCCL_TOPO_DUMP_FILE (optional)");
  return text;
}

std::vector<HostArgument> saved_hosts(const DetectOptions& options) {
  constexpr std::size_t max_hosts = 1024;
  std::vector<HostArgument> hosts;
  std::error_code problem;
  for (fs::directory_iterator it(*options.from, problem), end; !problem && it != end; it.increment(problem))
    if (it->is_directory()) {
      if (hosts.size() == max_hosts)
        throw Error("--from", fmt::format("{} has folders for more than {} hosts", io::quote(*options.from),
                                          max_hosts));
      const std::string name = it->path().filename().string();
      if (!is_host_name(name))
        throw Error("--from", fmt::format("folder {} is not a valid host name: rename it, or list the hosts "
                                          "(dtfm-topology detect --from {} HOST…)",
                                          io::quote(name), *options.from));
      hosts.push_back({options.default_site, name, name, ""});
    }
  if (problem)
    throw Error("--from", fmt::format("{} cannot be read: {}", io::quote(*options.from), problem.message()));
  if (hosts.empty())
    throw Error("--from",
                fmt::format("{} has no folder for a host: save its outputs in {}/HOST (see dtfm-topology "
                            "detect --help)",
                            io::quote(*options.from), *options.from));
  std::sort(hosts.begin(), hosts.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return hosts;
}

std::vector<io::DetectedHost> detect_hosts(const std::vector<HostArgument>& arguments,
                                           const DetectOptions& options, bool quiet,
                                           const StopFunction& stop) {
  std::vector<io::DetectedHost> hosts;
  for (const HostArgument& argument : arguments) hosts.push_back(new_host(argument));
  if (options.from) {
    io::InputErrors errors;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      try {
        read_saved_host(arguments[i], options, hosts[i]);
      } catch (const Error& error) {
        errors.add(error);
      }
    }
    errors.throw_if_any();
  } else {
    run_on_hosts(arguments, options, quiet, stop, hosts);
  }
  read_nccl_topologies(options, hosts);
  return hosts;
}

std::vector<io::DetectedHost> detect_slurm_nodes(const DetectOptions& options, const StopFunction& stop) {
  std::string where;
  const std::string nodes = slurm_output(options, "sinfo.txt", {"sinfo", "-h", "-o", "%N %G"}, stop, where);
  std::vector<io::DetectedHost> hosts;
  for (const io::SlurmNode& node : io::parse_sinfo(nodes, where)) {
    HostArgument argument = parse_host_argument(node.name);
    argument.site = options.default_site;
    hosts.push_back(new_host(argument));
    hosts.back().slurm_gpus = node.gpus;
  }
  std::map<std::string, std::string> switch_of;
  try {
    const std::string tree =
        slurm_output(options, "switches.txt", {"scontrol", "show", "topology"}, stop, where);
    for (const io::SlurmSwitch& it : io::parse_slurm_switches(tree, where))
      for (const std::string& node : it.nodes) switch_of.emplace(node, it.name);
  } catch (const Error&) {
    if (options.sites_by_switch) throw;
  }
  if (switch_of.empty() && options.sites_by_switch)
    throw Error(where,
                "names no switch with nodes: omit --sites-by-switch, or configure Slurm's topology plugin");
  for (io::DetectedHost& host : hosts) {
    const auto found = switch_of.find(host.name);
    if (found != switch_of.end()) host.network_switch = found->second;
    if (options.sites_by_switch && found == switch_of.end())
      throw Error(where, fmt::format("no switch has node {}: omit --sites-by-switch", io::quote(host.name)));
    if (options.sites_by_switch) host.site = found->second;
  }
  return hosts;
}

}  // namespace dtfm::cli
