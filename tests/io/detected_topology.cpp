// Tests which links and devices the topology of detected hosts has; tests/cli/detect.py has more kinds of
// machines.
#include "core/io/writers/detected_topology.hpp"

#include <tuple>

#include <fmt/format.h>

#include "core/io/readers/topology_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

/// A host with `count` GPUs, all pairs of which are connected in the same way.
DetectedHost host(const std::string& name, const std::string& driver_name, double mib, int count,
                  const std::string& connection) {
  DetectedHost result;
  result.site = "lab";
  result.name = name;
  std::string matrix;
  for (int i = 0; i < count; ++i) matrix += fmt::format("\tGPU{}", i);
  for (int i = 0; i < count; ++i) {
    result.gpus.push_back({i, driver_name, mib, fmt::format("0000:{:02x}:00.0", i), ""});
    matrix += fmt::format("\nGPU{}", i);
    for (int j = 0; j < count; ++j) matrix += "\t" + (i == j ? std::string(" X ") : connection);
  }
  result.matrix = parse_gpu_matrix(matrix, "m");
  return result;
}

Topology topology_of(const std::vector<DetectedHost>& hosts, const DetectionSettings& settings = {},
                     const HostLinkMap& measured = {}) {
  return parse_topology(format_detected_topology(hosts, measured, settings), "t.yaml", {});
}

std::string error_of(const std::vector<DetectedHost>& hosts, const DetectionSettings& settings = {}) {
  return error_message([&] { format_detected_topology(hosts, {}, settings); });
}

double gigabytes(BitsPerSecond rate) {
  return rate.value() / 8e9;
}

}  // namespace

TEST_CASE("NVLinks whose sum exceeds those of a GPU end at switches, which its flows share") {
  // 7 × 18 links are more than the 18 of an H100; 3 × 6 are not.
  const Link switched = topology_of({host("a", "NVIDIA H100 80GB HBM3", 81559, 8, "NV18")}).link(0, 7);
  CHECK(gigabytes(switched.bandwidth) == Approx(360));  // 80 % of what 18 NVLinks have
  CHECK(switched.shared_by_sender);
  const Link direct = topology_of({host("a", "NVIDIA H100 80GB HBM3", 81559, 4, "NV6")}).link(0, 3);
  CHECK(gigabytes(direct.bandwidth) == Approx(120));
  CHECK_FALSE(direct.shared_by_sender);
  CHECK(direct.latency.value() == Approx(3.4e-6));
}

TEST_CASE("the driver's count of NVLinks decides if the catalogue has none") {
  DetectedHost unknown = host("a", "NVIDIA X", 1000, 4, "NV4");
  const auto set_links = [&](int links) {
    for (int i = 0; i < 4; ++i) unknown.nvlinks[i] = {links, BitsPerSecond(8 * 20e9)};
  };
  set_links(12);
  CHECK_FALSE(topology_of({unknown}).link(0, 1).shared_by_sender);
  set_links(4);
  CHECK(topology_of({unknown}).link(0, 1).shared_by_sender);
  CHECK(gigabytes(topology_of({unknown}).link(0, 1).bandwidth) == Approx(64));
  unknown.nvlinks.clear();
  CHECK(error_of({unknown}) ==
        "a: the rate of an NVLink of `NVIDIA X` is not known: give it with --within-host LATENCY,BANDWIDTH");
}

TEST_CASE("a link over PCIe has the rate of the slower slot") {
  DetectedHost four = host("a", "NVIDIA GeForce RTX 4090", 24564, 2, "PHB");
  CHECK(gigabytes(topology_of({four}).link(0, 1).bandwidth) == 32);  // host_link of the catalogue
  four.slots = {PcieSlot{4, 16}, PcieSlot{3, 4}};
  const Link link = topology_of({four}).link(0, 1);
  CHECK(gigabytes(link.bandwidth) == 4);
  CHECK(link.latency.value() == Approx(5.7e-6));
  DetectedHost unknown = host("a", "NVIDIA X", 1000, 2, "PHB");
  CHECK(error_of({unknown}) ==
        "a: the rate of the PCIe slot of GPU0 (`NVIDIA X`) is not known: give it with --within-host "
        "LATENCY,BANDWIDTH");
  DetectionSettings settings;
  settings.within_host = LinkSettings{Seconds(1e-6), BitsPerSecond(1e9)};
  CHECK(topology_of({unknown}, settings).link(0, 1).bandwidth.value() == 1e9);
}

TEST_CASE("a link between NUMA nodes has at most the rate that NCCL assumes for their CPUs") {
  DetectedHost node = host("a", "NVIDIA L40S", 46068, 2, "SYS");  // PCIe 4: 32 GB/s
  const auto rate = [&] { return gigabytes(topology_of({node}).link(0, 1).bandwidth); };
  CHECK(rate() == 32);
  for (const auto& [vendor, model, expected] :
       {std::tuple("AuthenticAMD", 1, 16), std::tuple("GenuineIntel", 79, 6),
        std::tuple("GenuineIntel", 106, 10), std::tuple("GenuineIntel", 143, 22),
        std::tuple("GenuineIntel", 207, 32), std::tuple("ARM", 1, 32)}) {
    CAPTURE(vendor, model);
    node.cpu = CpuKind{vendor, model};
    CHECK(rate() == expected);
  }
  node.cpu = CpuKind{"AuthenticAMD", 1};
  node.slots = {PcieSlot{3, 8}, PcieSlot{4, 16}};
  CHECK(rate() == 8);  // the slot is slower
  node = host("a", "NVIDIA L40S", 46068, 2, "NODE");
  node.cpu = CpuKind{"AuthenticAMD", 1};
  CHECK(rate() == 32);
  CHECK(topology_of({node}).link(0, 1).shared_by_sender);
}

TEST_CASE("a measurement of all GPUs of a host replaces links that are all equal") {
  DetectedHost node = host("a", "NVIDIA L40S", 46068, 4, "SYS");
  node.within = LinkSettings{Seconds(1e-5), BitsPerSecond(8e9)};
  CHECK(topology_of({node}).link(1, 2).bandwidth.value() == 8e9);
  node.slots = {PcieSlot{4, 16}, PcieSlot{4, 16}, PcieSlot{4, 16}, PcieSlot{4, 8}};
  CHECK(gigabytes(topology_of({node}).link(0, 3).bandwidth) == 16);
  CHECK(gigabytes(topology_of({node}).link(0, 2).bandwidth) == 32);
}

TEST_CASE("measured links between hosts hold for all their GPUs, also of a host with different ones") {
  DetectedHost mixed = host("a", "NVIDIA L40S", 46068, 3, "PHB");
  mixed.gpus[2].name = "NVIDIA A10";
  mixed.gpus[2].memory_mib = 23028;
  const HostLinkMap measured = {{{0, 1}, {Seconds(1e-3), BitsPerSecond(1e9), {}, {}}},
                                {{1, 0}, {Seconds(2e-3), BitsPerSecond(2e9), {}, {}}}};
  const Topology topology = topology_of({mixed, host("b", "Tesla T4", 15360, 1, "")}, {}, measured);
  REQUIRE(topology.size() == 4);
  CHECK(topology.devices[2].id == "a-A10");
  for (const int gpu : {0, 1, 2}) {
    CHECK(topology.link(gpu, 3).bandwidth.value() == 1e9);
    CHECK(topology.link(3, gpu).latency.value() == Approx(2e-3));
  }
  CHECK(gigabytes(topology.link(0, 2).bandwidth) == 32);
}

TEST_CASE("what is missing between hosts is named, with the options that give it") {
  std::vector<DetectedHost> two = {host("a", "Tesla T4", 15360, 1, ""), host("b", "Tesla T4", 15360, 1, "")};
  CHECK(error_of(two) ==
        "the links between hosts are not known: measure them with --measure, or give --between-hosts "
        "LATENCY,BANDWIDTH, such as 20us,100Gbps");
  two[1].name = "a";
  CHECK(error_of(two) == "a: is given twice: name each host once");
  two[1].name = "lab";
  CHECK(error_of(two) == "lab: is the name of a host and of a site: rename the site with --site");
  two[1].name = "b/c";
  CHECK(error_of(two).starts_with("b/c: `b/c` cannot be the name of a site"));
}
