// Tests the hosts that a topology can name, and their links beside those of the file.
#include "core/io/readers/host_templates.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "core/io/readers/gpu_catalogue.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

Topology read(const std::string& text) {
  return parse_topology("version: 1\n" + text, "t.yaml", ".");
}

std::string error_text(const std::string& text) {
  return error_message([&] { read(text); });
}

std::string hosts_error(const std::string& text) {
  return error_message([&] { parse_host_templates(text, "h.yaml"); });
}

HostTemplate built_in_host(const std::string& name) {
  const std::vector<HostTemplate> hosts = built_in_hosts();
  const auto found =
      std::find_if(hosts.begin(), hosts.end(), [&](const HostTemplate& host) { return host.name == name; });
  REQUIRE(found != hosts.end());
  return *found;
}

/// Returns an entry of `links` that is identified by its bandwidth of 1 Gbps.
std::string entry(const std::string& ends) {
  return "  - {" + ends + ", latency: 1 ms, bandwidth: 1 Gbps}\n";
}

/// Two hosts a/0 and a/1 with H100, and an entry beside one that matches all pairs at 2 Gbps.
Topology two_hosts(const std::string& ends) {
  return read("devices: [{site: a, hosts: 2, host: dgx-h100}]\nlinks:\n" +
              (ends == "between: [\"*\", \"*\"]" ? "" : entry(ends)) +
              "  - {between: [\"*\", \"*\"], latency: 1 ms, bandwidth: 2 Gbps}\n");
}

double gbps(const Topology& topology, int from, int to) {
  return topology.link(from, to).bandwidth.value() / 1e9;
}

constexpr double inside_gbps = 0.8 * 3600, to_site_gbps = 400;  // of a dgx-h100

}  // namespace

TEST_CASE("every known host has a GPU of the catalogue and a plausible network") {
  const std::vector<Gpu> gpus = built_in_gpus();
  std::set<std::string> names;
  for (const HostTemplate& host : built_in_hosts()) {
    CAPTURE(host.name);
    CHECK(names.insert(host.name).second);
    const auto gpu = std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& g) { return g.name == host.gpu; });
    REQUIRE(gpu != gpus.end());
    REQUIRE(gpu->interconnect);
    CHECK(host.network_per_gpu < *gpu->interconnect);
    CHECK(host.network_per_gpu <= host.network);
    CHECK(host.network <= host.gpus * host.network_per_gpu);
    CHECK(host.gpu_latency < host.network_latency);
    CHECK(host.network_latency.value() < 1e-3);
    CHECK(host.gpus >= 8);
    if (host.price) {
      CHECK(host.price->value() > 0.5);
      CHECK(host.price->value() < 20);
      CHECK(host.price != gpu->price);  // which would repeat that of the GPU
    }
  }
  for (const char* name :
       {"dgx-a100",         "dgx-h100",       "dgx-h200",       "dgx-b200",      "nvl72",
        "nvl72-gb300",      "p4d.24xlarge",   "p4de.24xlarge",  "p5.48xlarge",   "p5e.48xlarge",
        "p5en.48xlarge",    "trn2.48xlarge",  "a2-ultragpu-8g", "a3-highgpu-8g", "a3-megagpu-8g",
        "p6-b200.48xlarge", "a3-ultragpu-8g", "a4-highgpu-8g",  "nd-h100-v5",    "nd-h200-v5",
        "nd-a100-v4",       "mi300x-8",       "gaudi3-8"})
    CHECK(names.contains(name));
}

TEST_CASE("known hosts have the network of their data sheets") {
  const HostTemplate nvl72 = built_in_host("nvl72");
  CHECK(nvl72.gpus == 72);
  CHECK(nvl72.network.value() == 18 * 4 * 400e9);  // 18 trays, each with four cards of 400 Gbps
  const HostTemplate p4d = built_in_host("p4d.24xlarge");
  CHECK(p4d.network.value() == 400e9);
  CHECK(p4d.network_per_gpu.value() == 100e9);
  CHECK(p4d.gpu_latency.value() == 3.4e-6);
  CHECK(built_in_host("g5.48xlarge").gpu_latency.value() == 5.7e-6);
}

TEST_CASE("hosts of two sites need one entry of links") {
  const Topology topology = read(
      "devices:\n"
      "  - {site: oregon, hosts: 4, host: dgx-h100}\n"
      "  - {site: ohio, hosts: 4, host: dgx-h100}\n"
      "links:\n"
      "  - {between: [\"*\", \"*\"], rtt: 50 ms, bandwidth: 10 Gbps}\n");
  REQUIRE(topology.size() == 64);
  CHECK(topology.devices[9].id == "oregon/1:1");
  const Device& device = topology.devices[63];
  CHECK(device.id == "ohio/3:7");
  CHECK(topology.gpus[at(device.gpu)].name == "H100");
  CHECK(device.uplink.value() == 400e9);
  CHECK(device.downlink.value() == 400e9);
  CHECK(device.host_uplink.value() == 3200e9);
  CHECK(device.host_downlink.value() == 3200e9);
  CHECK_FALSE(device.price);
  CHECK(gbps(topology, 0, 7) == inside_gbps);
  CHECK(topology.link(0, 7).shared_by_sender);
  CHECK(topology.link(0, 7).latency.value() == 3.4e-6);
  CHECK(gbps(topology, 0, 8) == to_site_gbps);
  CHECK(topology.link(0, 8).latency.value() == 14e-6);
  CHECK(gbps(topology, 0, 32) == 10);
  CHECK(gbps(topology, 63, 31) == 10);
  CHECK(topology.link(63, 31).latency.value() == 0.025);
  // Equal hosts stay interchangeable: a class per site. Both sites use the same two links.
  CHECK(std::get<RuleLinks>(topology.links).table.rows() == 2);
  CHECK(std::get<RuleLinks>(topology.links).links.size() == 3);
}

TEST_CASE("known hosts of one site need no links") {
  const Topology one = read("devices: [{site: home, host: dgx-a100}]\n");
  REQUIRE(one.size() == 8);
  CHECK(gbps(one, 0, 7) == Approx(0.8 * 2400));
  CHECK(std::get<RuleLinks>(one.links).links.size() == 1);
  const Topology rack = read("devices: [{site: home, host: nvl72, hosts: 2}]\nlinks: []\n");
  REQUIRE(rack.size() == 144);
  CHECK(gbps(rack, 0, 71) == Approx(0.8 * 7200));
  CHECK(gbps(rack, 0, 72) == 400);
  const Topology named = read(
      "devices: [{name: box, site: lab, host: p4d.24xlarge}, {name: other, site: lab, host: "
      "p4d.24xlarge}]\n");
  CHECK(named.devices[8].id == "other:0");
  CHECK(gbps(named, 0, 8) == 100);
  CHECK(error_text("devices: [{site: a, host: dgx-h100}, {site: b, host: dgx-h100}]\n") ==
        "t.yaml:1:1: missing key `links` or `measured`");
  CHECK(error_text("devices: [{site: a, host: dgx-h100}, {site: b, host: dgx-h100}]\nlinks: []\n") ==
        "t.yaml:3:8: `links`: no entry matches a/0:0 → b/0:0 and 127 more pairs");
}

TEST_CASE("inside a known host, only an entry that is about the host or its devices replaces the link") {
  for (const char* ends :
       {"between: [\"*\", \"*\"]", "from: \"*\", to: \"*\"", "between: [a, \"*\"]", "from: \"*\", to: a",
        "within: \"*\"", "within: a", "from: a, to: a", "between: [\"*\", a/0]", "from: a/0, to: \"*\"",
        "between: [a, a/0]", "from: a/0, to: a"}) {
    CAPTURE(ends);
    CHECK(gbps(two_hosts(ends), 0, 1) == inside_gbps);
  }
  for (const char* ends :
       {"within: host", "between: [a/0, a/0]", "from: a/0, to: a/0", "between: [\"*\", \"a/0:0\"]",
        "from: \"a/0:0\", to: a", "between: [\"a/0:0\", a/0]", "between: [\"a/0:0\", \"a/0:1\"]"}) {
    CAPTURE(ends);
    CHECK(gbps(two_hosts(ends), 0, 1) == 1);
  }
}

TEST_CASE("between known hosts of a site, an entry that is about the inside of a site replaces the link") {
  for (const char* ends : {"between: [\"*\", \"*\"]", "from: \"*\", to: \"*\"", "between: [a, \"*\"]",
                           "from: \"*\", to: a", "within: host"}) {
    CAPTURE(ends);
    CHECK(gbps(two_hosts(ends), 0, 8) == to_site_gbps);
  }
  for (const char* ends : {"within: \"*\"", "within: a", "from: a, to: a", "between: [\"*\", a/0]",
                           "from: a/0, to: \"*\"", "between: [a/0, a/1]", "from: \"a/0:0\", to: a"}) {
    CAPTURE(ends);
    CHECK(gbps(two_hosts(ends), 0, 8) == 1);
  }
}

TEST_CASE("a link that other entries replace everywhere is not kept") {
  const auto links = [](const std::string& ends) {
    return std::get<RuleLinks>(two_hosts(ends).links).links.size();
  };
  CHECK(links("within: host") == 3);  // two entries, and the link to other hosts
  CHECK(links("within: a") == 3);     // two entries, and the link inside a host
  CHECK(links("from: a, to: \"*\"") == 4);
}

TEST_CASE("keys beside a known host replace its values") {
  const Topology topology = read(
      "gpus: [{name: H100, memory: 70 GB, interconnect: 100 GB/s}]\n"
      "devices:\n"
      "  - {site: a, host: dgx-h100, gpus_per_host: 2, uplink: 100 Gbps, price: 2 USD/h, speed: 0.5}\n"
      "  - {site: a, host: dgx-h100, gpu: A100-40GB, gpus_per_host: 2, host_uplink: 50 Gbps}\n"
      "  - {site: a, host: mi300x-8, gpus_per_host: 1}\n");
  REQUIRE(topology.size() == 5);
  CHECK(topology.devices[0].uplink.value() == 100e9);
  CHECK(topology.devices[0].downlink.value() == 400e9);
  CHECK(topology.devices[0].price->value() == 2);
  CHECK(topology.devices[0].speed == 0.5);
  CHECK(gbps(topology, 0, 1) == Approx(0.8 * 800));
  CHECK(topology.gpus[at(topology.devices[2].gpu)].name == "A100-40GB");
  CHECK(gbps(topology, 2, 3) == Approx(0.8 * 2400));
  CHECK(topology.devices[4].id == "a/2");
  CHECK(topology.devices[4].price->value() == 6);
  // A flow has the network of its sender; the receiver's is a limit of its own.
  CHECK(gbps(topology, 0, 2) == 100);
  CHECK(gbps(topology, 2, 0) == 50);
  CHECK(gbps(topology, 4, 0) == 400);
  CHECK(topology.uncontended_bandwidth(4, 0).value() == 400e9);
}

TEST_CASE("hosts of different kinds are linked at the rate of the slower") {
  const Topology topology = read(
      "devices: [{site: a, host: dgx-h100}, {site: a, host: p4d.24xlarge}, {site: a, host: dgx-h100}]\n");
  CHECK(topology.uncontended_bandwidth(0, 8).value() == 100e9);
  CHECK(topology.uncontended_bandwidth(8, 0).value() == 100e9);
  CHECK(topology.uncontended_bandwidth(0, 16).value() == 400e9);
  CHECK(gbps(topology, 8, 9) == Approx(0.8 * 2400));
}

TEST_CASE("a host of another kind has only the links of the file") {
  const std::string devices = "devices: [{site: a, host: dgx-h100}, {site: a, count: 2, gpu: T4}]\n";
  CHECK(error_text(devices + "links: []\n") ==
        "t.yaml:3:8: `links`: no entry matches a/0:0 → a/1 and 33 more pairs");
  const Topology topology = read(devices + "links:\n" + entry("between: [\"*\", \"*\"]"));
  CHECK(gbps(topology, 0, 7) == inside_gbps);
  CHECK(gbps(topology, 0, 8) == 1);
  CHECK(gbps(topology, 8, 0) == 1);
  CHECK(gbps(topology, 8, 9) == 1);
}

TEST_CASE("measured links replace those of known hosts") {
  const TemporaryFolder folder;
  folder.write("latency.csv", "0,7\n8,0\n");
  folder.write("bandwidth.csv", "0,5\n6,0\n");
  const Topology topology = parse_topology(
      "version: 1\ndevices: [{site: a, host: dgx-h100, gpus_per_host: 2}]\n"
      "measured: {latency: {file: latency.csv, unit: ms}, bandwidth: {file: bandwidth.csv, unit: Gbps}}\n",
      "t.yaml", folder.path());
  CHECK(gbps(topology, 0, 1) == 5);
  CHECK(topology.link(1, 0).latency.value() == 0.008);
}

TEST_CASE("entries of known hosts are validated") {
  const auto device = [](const std::string& keys) {
    return error_text("devices: [{site: a, " + keys + "}]\n");
  };
  CHECK(device("host: dgx-h10") == "t.yaml:2:27: unknown host `dgx-h10`; did you mean `dgx-h100`?");
  CHECK(device("host: 4").starts_with("t.yaml:2:27: unknown host `4`; known: `dgx-a100`, "));
  CHECK(device("host: [dgx-h100]").starts_with("t.yaml:2:27: `host`: expected"));
  CHECK(device("host: dgx-h100, count: 2") ==
        "t.yaml:2:11: `count` is for hosts with one GPU and cannot be combined with `host`; use `hosts`");
  CHECK(device("host: dgx-h100, gpu: MI250") ==
        "t.yaml:2:27: GPU `MI250` has no `interconnect`, which is the bandwidth inside a dgx-h100");
  CHECK(device("host: dgx-h100, hosts: 8192") == "t.yaml:2:11: more than 8192 devices in all");
}

TEST_CASE("an invalid file of hosts is rejected") {
  const std::string head =
      "version: 1\nlatencies: {direct: 1 us, pcie: 2 us, network: 3 us}\ndirect_share: 0.5\nhosts:\n";
  const std::string row =
      "  - {name: a, gpu: H100, gpus: 8, gpu_links: direct, network: 1 Gbps, network_per_gpu: 1 Gbps";
  CHECK(parse_host_templates(head + row + "}\n", "h.yaml").size() == 1);
  CHECK(hosts_error(head + row + "}\n" + row + "}\n") == "h.yaml:6:5: host `a` is given twice");
  CHECK(hosts_error(head + row + ", nics: 8}\n").starts_with("h.yaml:5:"));
  CHECK(hosts_error(head + "  - {name: a, gpu: H100}\n") == "h.yaml:5:5: missing key `gpus`");
  CHECK(hosts_error(head + "  - {name: a, gpu: H100, gpus: 8, gpu_links: nvlink}\n") ==
        "h.yaml:5:46: `gpu_links`: unknown `nvlink`; known: `direct`, `pcie`");
  CHECK(hosts_error("version: 1\nhosts: []\n") == "h.yaml:1:1: missing key `latencies`");
}
