// Parses the matrix of `nvidia-smi topo -m`: how the GPUs of a host are connected, and to which NUMA nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace dtfm::io {

/// In ascending order of distance.
enum class GpuPath { same, nvlink, pix, pxb, phb, node, sys };

/// The word of the matrix, such as "PXB", and the legend's meaning of it.
struct GpuPathName {
  GpuPath path;
  const char* name;
  const char* meaning;
};
const GpuPathName& path_name(GpuPath path);

struct GpuConnection {
  GpuPath path = GpuPath::same;
  int nvlinks = 0;
  friend bool operator==(const GpuConnection&, const GpuConnection&) = default;
};

struct GpuMatrix {
  std::vector<int> gpus;                                // as nvidia-smi numbers them
  std::vector<std::vector<GpuConnection>> connections;  // symmetric; rows and columns in the order of `gpus`
  std::vector<std::optional<int>> numa_nodes;           // of the CPUs next to each GPU; nullopt: not known
  std::vector<std::string> network_cards;               // "mlx5_0", else "NIC0"

  /// Row of the GPU with this index; −1 if the matrix lacks it.
  int row(int gpu) const;
};

/// Text of any driver version: with or without styles, network cards and the columns of affinities, separated
/// by tabs or by blanks. Throws Error at `where`:line for any other text.
GpuMatrix parse_gpu_matrix(const std::string& text, const std::string& where);

}  // namespace dtfm::io
