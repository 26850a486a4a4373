// Tests the reader of the topology that NCCL writes.
#include "core/io/importers/nccl_topology.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

std::string nccl_error(const std::string& text) {
  return error_message([&] { parse_nccl_topology(text, "x"); });
}

}  // namespace

TEST_CASE("GPUs have NUMA nodes, slots and NVLinks, and hosts network cards") {
  const NcclTopology topology = parse_nccl_topology(
      "<?xml version=\"1.0\"?>\n<!-- of one host -->\n<system version=\"1\">\n"
      "  <cpu numaid=\"1\" affinity=\"00ff\" arch=\"x86_64\">\n"
      "    <pci busid=\"0000:10:00.0\" class=\"0x030200\" link_speed=\"16.0 GT/s PCIe\" link_width=\"8\">\n"
      "      <gpu dev=\"0\" sm=\"80\" rank=\"0\" gdr=\"1\">\n"
      "        <nvlink target=\"0000:11:00.0\" count=\"4\" tclass=\"0x030200\"/>\n"
      "      </gpu>\n    </pci>\n"
      "    <pci busid=\"0000:11:00.0\" class=\"0x030200\" link_speed=\"\" link_width=\"0\">\n"
      "      <gpu dev=\"1\" sm=\"80\"><nvlink target=\"0000:c4:00.0\" count=\"12\" "
      "tclass=\"0x068000\"/></gpu>\n"
      "    </pci>\n"
      "    <pci busid=\"0000:12:00.0\" class=\"0x020700\"><nic>\n"
      "      <net name=\"mlx5_0\" dev=\"0\" speed=\"200000\"/><net name=\"mlx5_0\" dev=\"1\" "
      "speed=\"200000\"/>\n"
      "      <net name=\"eth0\" dev=\"2\" speed=\"10000\"/><net name=\"eth1\" dev=\"3\" speed=\"0\"/>\n"
      "    </nic></pci>\n  </cpu>\n</system>\n",
      "x");
  REQUIRE(topology.gpus.size() == 2);
  CHECK(topology.gpus[0].bus_id == "0000:10:00.0");
  CHECK(topology.gpus[0].numa_node == 1);
  CHECK(topology.gpus[0].slot->generation == 4);
  CHECK(topology.gpus[0].slot->lanes == 8);
  CHECK(topology.gpus[0].links.at("0000:11:00.0") == 4);
  CHECK(topology.gpus[0].switch_links == 0);
  CHECK_FALSE(topology.gpus[1].slot);
  CHECK(topology.gpus[1].switch_links == 12);
  REQUIRE(topology.networks.size() == 2);
  CHECK(topology.networks[0].rate.value() == 200e9);
  CHECK(topology.networks[1].name == "eth0");
}

TEST_CASE("anything but NCCL's topology is an error") {
  CHECK(nccl_error("") == "x:1: expected the XML that NCCL writes to NCCL_TOPO_DUMP_FILE");
  CHECK(nccl_error("{}").starts_with("x:1: expected `<`"));
  CHECK(nccl_error("<graphs version=\"1\"/>") ==
        "x:1: expected the XML that NCCL writes to NCCL_TOPO_DUMP_FILE; found an element `graphs`");
  CHECK(nccl_error("<system version=\"1\"/>") == "x: has no GPU: NCCL writes it when a job of it begins");
  CHECK(nccl_error("<system>\n<cpu>\n") == "x:3: expected the XML that NCCL writes to NCCL_TOPO_DUMP_FILE");
  CHECK(nccl_error("<system></cpu>") == "x:1: an element ends that does not begin");
  CHECK(nccl_error("<system a=1>") == "x:1: expected `\"`");
  CHECK(nccl_error("<system a=\"1>") == "x:1: expected `\"`");
  CHECK(nccl_error("<!-- ") == "x:1: expected `-->`");
  CHECK(nccl_error("<system>\n<gpu dev=\"0\"/></system>") ==
        "x:2: expected a GPU with `dev` inside an element `pci`");
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "<system>";
  CHECK(nccl_error(deep) == "x:1: more than 64 levels");
}
