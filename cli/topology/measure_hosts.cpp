#include "cli/topology/measure_hosts.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdlib.h>
#include <unistd.h>

#include "cli/common/print_error.hpp"
#include "cli/topology/detect_hosts.hpp"
#include "cli/topology/run_programs.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/importers/network_measurements.hpp"
#include "core/io/text/atomic_file.hpp"
#include "core/io/text/control_characters.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::cli {

extern const std::string_view measure_sh;

namespace {

namespace fs = std::filesystem;

/// A folder that is removed with all its files.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "dtfm-detect-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw Error(name, "cannot be created: set TMPDIR to a folder with space");
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string hosts_file(const std::vector<HostArgument>& hosts) {
  std::string text;
  for (const HostArgument& host : hosts)
    text += fmt::format("{}/{} {} {}\n", host.site, host.name, host.destination,
                        host.address.empty() ? "-" : host.address);
  return text;
}

io::HostLinkMap read_links(const std::vector<HostArgument>& hosts, const fs::path& raw) {
  std::vector<fs::path> files;
  for (const HostArgument& from : hosts)
    for (const HostArgument& to : hosts)
      if (&from != &to)
        files.push_back(raw / fmt::format("{}+{},{}+{}.json", from.site, from.name, to.site, to.name));
  const auto& format = io::find_row(io::measurement_formats(), "measurements", "", "format");
  const io::NetworkMeasurements measurements = io::import_network_measurements(format, files, {});
  io::HostLinkMap links;
  const auto index_of = [&](int endpoint) {
    const std::string& name = measurements.endpoints[at(endpoint)].machine;
    const auto found =
        std::find_if(hosts.begin(), hosts.end(), [&](const auto& it) { return it.name == name; });
    DTFM_ASSERT(found != hosts.end());
    return static_cast<int>(found - hosts.begin());
  };
  for (const auto& [pair, link] : io::summarize_links(measurements, {}))
    links.emplace(std::pair(index_of(pair.first), index_of(pair.second)), link);
  return links;
}

}  // namespace

void check_measurable(const std::vector<HostArgument>& hosts) {
  constexpr std::size_t max_hosts = 128;
  if (hosts.size() > max_hosts)
    throw Error("--measure", fmt::format("{} hosts; at most {} can be measured", hosts.size(), max_hosts));
  for (const HostArgument& host : hosts)
    if (host.site.size() > 63 || host.name.size() > 63 || host.site.find(' ') != std::string::npos)
      throw Error("--measure",
                  fmt::format("names of sites and hosts must have at most 63 characters and no blanks; "
                              "found {}/{}",
                              io::quote(host.site), io::quote(host.name)));
  for (const HostArgument& host : hosts)
    if (hosts.size() > 1 && host.destination == "local" && host.address.empty())
      throw Error("--measure",
                  "the address of this host is not known to the others: name it as local=ADDRESS");
}

io::HostLinkMap measure_between_hosts(const std::vector<HostArgument>& hosts, const DetectOptions& options,
                                      bool quiet, const StopFunction& stop) {
  const TemporaryFolder folder;
  const fs::path script = folder.path() / "measure.sh", list = folder.path() / "hosts.txt",
                 results = options.measurements ? fs::path(*options.measurements) : folder.path() / "network";
  io::write_file_atomically(script, measure_sh);
  io::write_file_atomically(list, hosts_file(hosts));
  std::array<ProgramRun, 1> run;
  run[0].arguments = {"bash", script.string(), "--hosts", list.string(), "-o", results.string()};
  if (quiet) run[0].arguments.emplace_back("--quiet");
  run[0].environment = {"DTFM_TOPOLOGY=" + fs::read_symlink("/proc/self/exe").string()};
  run[0].shows_errors = true;
  RunLimits limits;
  limits.timeout_s = 0;  // measure.sh has its own
  run_programs(run, limits, stop);
  if (run[0].end == ProgramEnd::not_found) throw Error("--measure", "bash is not on PATH: install it");
  if (run[0].end != ProgramEnd::exited || run[0].status != 0)
    throw Error("--measure",
                fmt::format("not all links between the hosts could be measured: fix the problems reported "
                            "above{}, or give the links with --between-hosts",
                            options.measurements ? " and repeat the command, which resumes" : ""));
  return read_links(hosts, results / "raw");
}

void measure_within_hosts(const std::vector<HostArgument>& arguments, const DetectOptions& options,
                          bool quiet, const StopFunction& stop, std::vector<io::DetectedHost>& hosts) {
  std::vector<ProgramRun> runs;
  std::vector<std::size_t> host_of;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (hosts[i].gpus.size() < 2 || !hosts[i].instances.empty()) continue;
    runs.push_back({command_on_host(arguments[i], {"all_reduce_perf", "-b", "1M", "-e", "256M", "-f", "2",
                                                   "-g", fmt::format("{}", hosts[i].gpus.size())})});
    host_of.push_back(i);
  }
  RunLimits limits;
  limits.timeout_s = std::max(options.timeout_s, 300.0);
  run_programs(runs, limits, stop);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    io::DetectedHost& host = hosts[host_of[i]];
    const std::string where = host.name + ": all_reduce_perf";
    try {
      if (runs[i].end == ProgramEnd::timed_out)
        throw Error(where, fmt::format("timed out after {:.6g} s", limits.timeout_s));
      if (runs[i].end != ProgramEnd::exited || runs[i].status != 0)
        throw Error(where,
                    "is not on PATH or failed: install nccl-tests there to measure links between GPUs");
      const io::LinkSample link =
          io::import_nccl_tests_of_host({where, io::validate_text(runs[i].output, where)}, host.gpus.size());
      host.within = io::LinkSettings{*link.latency, *link.bandwidth};
    } catch (const Error& error) {
      if (!quiet)
        print_error(fmt::format("dtfm-topology: note: nominal links inside a host: {}\n",
                                io::escape_control_characters(error.what(), "")));
    }
  }
}

}  // namespace dtfm::cli
