// Options of dtfm-topology detect.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/writers/detected_topology.hpp"

namespace dtfm::cli {

/// A host whose GPUs are detected.
struct HostArgument {
  std::string site, name;
  std::string destination;  // for ssh; "local": this host
  std::string address;      // at which other hosts reach it; empty if not given
};

/// A file about a host.
struct HostFile {
  std::string host;  // empty: the only one
  std::string file;
};

struct DetectOptions {
  std::vector<std::string> host_texts;  // as given
  std::vector<HostArgument> hosts;      // empty: this host, those of Slurm, or those of `from`
  std::string default_site = "cluster";
  std::optional<std::string> from;  // folder with saved outputs, instead of running commands
  std::vector<HostFile> nccl_topologies;
  bool uses_slurm = false, sites_by_switch = false, measures = false;
  std::optional<std::string> measurements;  // folder of what is measured
  double timeout_s = 30;
  io::DetectionSettings settings;
};

/// Whether a shell and ssh take `name` as the name of a host.
bool is_host_name(std::string_view name);

/// Parses `[SITE/][USER@]HOST[=ADDRESS]`. Throws Error for characters that have a special meaning for ssh or
/// a shell.
HostArgument parse_host_argument(const std::string& text);

}  // namespace dtfm::cli
