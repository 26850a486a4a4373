// Tests what is read from the lists that nvidia-smi prints.
#include "core/io/importers/nvidia_smi.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

std::string query_error(const std::string& text) {
  return error_message([&] { parse_gpu_query(text, "q"); });
}

}  // namespace

TEST_CASE("GPUs are listed by their index, with a memory in MiB") {
  const auto gpus = parse_gpu_query(
      "1, NVIDIA A10G, 23028, 00000000:00:1C.0, GPU-b\r\n0, Tesla T4, 15360, 00000000:00:1B.0, GPU-a\n\n",
      "q");
  REQUIRE(gpus.size() == 2);
  CHECK(gpus[0].index == 0);
  CHECK(gpus[0].name == "Tesla T4");
  CHECK(gpus[0].memory().value() == 15360. * 1024 * 1024);
  CHECK(gpus[1].bus_id == "00000000:00:1C.0");
  CHECK(gpus[1].uuid == "GPU-b");
}

TEST_CASE("a header and units in the list of GPUs are accepted") {
  const auto gpus = parse_gpu_query(
      "index, name, memory.total [MiB], pci.bus_id, uuid\n0, NVIDIA H200, 143771 MiB, 0000:18:00.0, GPU-a\n",
      "q");
  REQUIRE(gpus.size() == 1);
  CHECK(gpus[0].memory_mib == 143771);
}

TEST_CASE("a list of GPUs with anything else is an error at its line") {
  CHECK(query_error("") ==
        "q: lists no GPU: check with `nvidia-smi` that the driver sees them, or leave this host out");
  CHECK(query_error("No devices were found\n").starts_with("q: lists no GPU"));
  CHECK(query_error("0, A, 5, b, u\n1, A, 5, b\n") ==
        "q:2: expected `index, name, memory, bus id, uuid` of a GPU; found `1, A, 5, b`");
  CHECK(query_error("-1, A, 5, b, u\n").starts_with("q:1: expected `index"));
  CHECK(query_error("999, A, 5, b, u\n").starts_with("q:1: expected `index"));
  CHECK(query_error("0, , 5, b, u\n") == "q:1: expected the name of a GPU; found ``");
  CHECK(query_error("0, A, 0, b, u\n") == "q:1: expected a memory in MiB; found `0`");
  CHECK(query_error("0, A, nan, b, u\n") == "q:1: expected a memory in MiB; found `nan`");
  CHECK(query_error("0, NVIDIA GB10, [N/A], b, u\n") ==
        "q:1: the driver does not know the memory of this GPU (`[N/A]`): describe the host by hand "
        "(docs/files/topology.md)");
  CHECK(query_error("0, A, 5, b, u\n0, A, 5, b, u\n") == "q:2: GPU 0 is listed twice");
}

TEST_CASE("slots that the driver does not know are left out") {
  const auto slots = parse_pcie_query("4, 16\n[N/A], [N/A]\n5, 8\n", "q");
  REQUIRE(slots.size() == 3);
  CHECK(slots[0]->generation == 4);
  CHECK(slots[0]->lanes == 16);
  CHECK_FALSE(slots[1]);
  CHECK(slots[2]->lanes == 8);
  CHECK(error_message([] { parse_pcie_query("4, 16\n0, 16\n", "q"); }) ==
        "q:2: expected `generation, lanes` of PCIe; found `0, 16`");
}

TEST_CASE("MIG instances have the memory in the name of their profile") {
  const auto instances = parse_mig_instances(
      "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)\n"
      "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n"
      "  MIG 3g.20gb     Device  0: (UUID: MIG-0)\n"
      "  MIG 1c.2g.10gb  Device  1: (UUID: MIG-1)\n"
      "  MIG 1g.5gb+me   Device  2: (UUID: MIG-2)\n",
      "l");
  REQUIRE(instances.size() == 3);
  CHECK(instances[0].gpu == 1);
  CHECK(instances[0].profile == "3g.20gb");
  CHECK(instances[0].memory_gb == 20);
  CHECK(instances[1].memory_gb == 10);
  CHECK(instances[2].memory_gb == 5);
  CHECK(parse_mig_instances("GPU 0: Tesla T4 (UUID: GPU-0)\n", "l").empty());
  CHECK(error_message([] { parse_mig_instances("  MIG 1g.5gb Device 0:\n", "l"); }) ==
        "l:1: expected a MIG instance of a GPU; found `  MIG 1g.5gb Device 0:`");
}

TEST_CASE("active NVLinks are counted, without those that are inactive") {
  const auto status = parse_nvlink_status(
      "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-0)\n\t Link 0: 25 GB/s\n\t Link 1: 25.5 GB/s\n\t Link 2: "
      "<inactive>\n"
      "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n\t Link 0: 25 GB/s\n",
      "n");
  CHECK(status.at(0).links == 2);
  CHECK(status.at(0).rate->value() == 25e9 * 8);
  CHECK(status.at(1).links == 1);
  CHECK(parse_nvlink_status("", "n").empty());
  CHECK(error_message([] {
          parse_nvlink_status("\t Link 0: 25 GB/s\n", "n");
        }).starts_with("n:1: expected `Link"));
}
