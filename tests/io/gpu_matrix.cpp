// Tests the reader of `nvidia-smi topo -m` on the forms that driver versions print.
#include "core/io/importers/gpu_matrix.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

std::string matrix_error(const std::string& text) {
  return error_message([&] { parse_gpu_matrix(text, "m"); });
}

}  // namespace

TEST_CASE("styles, network cards, affinities and the legend do not matter") {
  const GpuMatrix matrix = parse_gpu_matrix(
      "\t\x1b[4mGPU0\tGPU1\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\r\n"
      "GPU0\t X \tNV12\tPXB\tSYS\t0-47,96-143\t0\t\tN/A\r\n"
      "GPU1\tNV12\t X \tSYS\tPXB\t48-95,144-191\t1\t\tN/A\r\n"
      "NIC0\tPXB\tSYS\t X \tSYS\t\t\t\t\r\n"
      "NIC1\tSYS\tPXB\tSYS\t X \t\t\t\t\r\n"
      "\r\nLegend:\r\n\r\n  X    = Self\r\n  NV#  = Connection traversing a bonded set of # NVLinks\r\n"
      "\r\nNIC Legend:\r\n\r\n  NIC0: mlx5_0\r\n  NIC1: mlx5_bond_1\r\n",
      "m");
  CHECK(matrix.gpus == std::vector{0, 1});
  CHECK(matrix.connections[0][1] == GpuConnection{GpuPath::nvlink, 12});
  CHECK(matrix.connections[1][1] == GpuConnection{GpuPath::same, 0});
  CHECK(matrix.numa_nodes == std::vector<std::optional<int>>{0, 1});
  CHECK(matrix.network_cards == std::vector<std::string>{"mlx5_0", "mlx5_bond_1"});
}

TEST_CASE("old drivers name network cards in the header, and have no NUMA nodes") {
  const GpuMatrix matrix = parse_gpu_matrix(
      "\tGPU0\tGPU1\tGPU2\tmlx5_0\tCPU Affinity\n"
      "GPU0\t X \tPIX\tSOC\tPHB\t0-7\n"
      "GPU1\tPIX\t X \tSOC\tPHB\t0-7\n"
      "GPU2\tSOC\tSOC\t X \tSOC\t8-15\n"
      "mlx5_0\tPHB\tPHB\tSOC\t X \n",
      "m");
  CHECK(matrix.connections[0][1].path == GpuPath::pix);
  CHECK(matrix.connections[0][2].path == GpuPath::sys);
  CHECK(matrix.numa_nodes == std::vector<std::optional<int>>(3));
  CHECK(matrix.network_cards == std::vector<std::string>{"mlx5_0"});
}

TEST_CASE("columns may be separated by blanks, as copied from a terminal") {
  const GpuMatrix matrix = parse_gpu_matrix(
      "        GPU0    GPU1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n"
      "GPU0     X      NODE    0-15            0               N/A\n"
      "GPU1    NODE     X      16-31           1               N/A\n",
      "m");
  CHECK(matrix.connections[1][0].path == GpuPath::node);
  CHECK(matrix.numa_nodes == std::vector<std::optional<int>>{0, 1});
}

TEST_CASE("a NUMA node that is not known is none, and of several the first counts") {
  const auto node = [](const std::string& rest) {
    return parse_gpu_matrix("\tGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\nGPU0\t X " + rest + "\n", "m")
        .numa_nodes.front();
  };
  CHECK(node("\t0-3\t\tN/A") == std::nullopt);
  CHECK(node("\t0-3\tN/A\t\tN/A") == std::nullopt);
  CHECK(node("\t\t\t\tN/A") == std::nullopt);
  CHECK(node("") == std::nullopt);
  CHECK(node("\t\t1\t\tN/A") == 1);
  CHECK(node("\t0-71\t0\t\t1") == 0);
  CHECK(node("\t0-63\t0-1\t\tN/A") == 0);
}

TEST_CASE("GPUs keep the numbers of nvidia-smi, and text before the matrix is skipped") {
  const GpuMatrix matrix =
      parse_gpu_matrix("Welcome to node-1\n\tGPU2\tGPU5\nGPU2\t X \tPXB\nGPU5\tPXB\t X \n", "m");
  CHECK(matrix.gpus == std::vector{2, 5});
  CHECK(matrix.row(5) == 1);
  CHECK(matrix.row(0) == -1);
}

TEST_CASE("a matrix that is cut off, asymmetric or something else is an error") {
  CHECK(matrix_error("") == "m: is empty: run `nvidia-smi topo -m` on the host to see why");
  CHECK(matrix_error("usage: nvidia-smi\n") ==
        "m: has no header `GPU0 …`, so it is not what `nvidia-smi topo -m` prints; it begins with `usage: "
        "nvidia-smi`");
  CHECK(matrix_error("\tGPU0\tGPU1\nGPU0\t X \tNV1\n") ==
        "m: ends before the row of GPU1: run `nvidia-smi topo -m` again");
  CHECK(matrix_error("\tGPU0\tGPU1\nGPU0\t X \n") == "m:2: expected 2 cells; found 1");
  CHECK(matrix_error("\tGPU0\tGPU1\nGPU1\tNV1\t X \n") == "m:2: expected the row of GPU0; found `GPU1`");
  CHECK(matrix_error("\tGPU0\tGPU0\n") == "m:1: GPU0 is listed twice");
  CHECK(matrix_error("\tGPU0\tGPU1\nGPU0\t X \tOK\n") ==
        "m:2: GPU0 to GPU1: expected NV#, PIX, PXB, PHB, NODE or SYS; found `OK`");
  CHECK(matrix_error("\tGPU0\tGPU1\nGPU0\tNV1\tNV1\n") == "m:2: GPU0 to GPU0: expected X; found `NV1`");
  for (const char* word : {"NV0", "NV", "NV65", "NV-1", "NV1x", "X"})
    CHECK(matrix_error(std::string("\tGPU0\tGPU1\nGPU0\t X \t") + word + "\n")
              .starts_with("m:2: GPU0 to GPU1"));
  CHECK(matrix_error("\tGPU0\tGPU1\nGPU0\t X \tNV1\nGPU1\tNV2\t X \n") ==
        "m: GPU1 to GPU0 differs from GPU0 to GPU1: run `nvidia-smi topo -m` again");
}
