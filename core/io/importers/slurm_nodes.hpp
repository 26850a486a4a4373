// Parses what Slurm prints about the nodes and switches of a cluster. All functions throw Error at
// `where`:line for text that does not have the documented form.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dtfm::io {

inline constexpr std::size_t max_slurm_nodes = 8192;

/// The names that a list of hosts such as `node[01-03,7],login` stands for, in its order. Throws Error at
/// `where` for a list that is malformed or stands for more than `max_slurm_nodes` names.
std::vector<std::string> expand_host_list(std::string_view list, const std::string& where);

struct SlurmGpus {
  std::string type;  // such as "h100" or "nvidia_h100_80gb_hbm3"; empty if the cluster has no types
  int count = 1;
  friend bool operator==(const SlurmGpus&, const SlurmGpus&) = default;
};

struct SlurmNode {
  std::string name;
  std::vector<SlurmGpus> gpus;
};

/// `sinfo -h -o "%N %G"`: the nodes that have GPUs, in the order of the text. Columns may be separated by
/// `|`, and a header that names NODELIST and GRES may say that there are others. Throws Error if no node has
/// GPUs and if two lines contradict each other about a node.
std::vector<SlurmNode> parse_sinfo(const std::string& text, const std::string& where);

struct SlurmSwitch {
  std::string name;
  std::vector<std::string> nodes;
};

/// `scontrol show topology`: the switches next to nodes (level 0 of a tree, or blocks), with all their nodes.
/// Empty if the cluster has no topology.
std::vector<SlurmSwitch> parse_slurm_switches(const std::string& text, const std::string& where);

}  // namespace dtfm::io
