#include "core/io/readers/topology_reader.hpp"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

const std::string links = "links: [{between: [\"*\", \"*\"], latency: 1 ms, bandwidth: 1 Gbps}]\n";

Topology read(const std::string& text, const std::filesystem::path& folder = ".") {
  return parse_topology(text, "t.yaml", folder);
}

std::string error_text(const std::string& text, const std::filesystem::path& folder = ".") {
  try {
    read(text, folder);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

/// Returns the error for a topology with these entries of `devices`, which begin in line 3.
std::string devices_error(const std::string& entries) {
  return error_text("version: 1\ndevices:\n" + entries + links);
}

std::vector<std::string> ids(const Topology& topology) {
  std::vector<std::string> result;
  for (const Device& device : topology.devices) result.push_back(device.id);
  return result;
}

}  // namespace

TEST_CASE("devices are numbered in file order and hosts continue over the entries of a site") {
  const Topology topology = read(
      "version: 1\nname: t\ndevices:\n"
      "  - {site: x, hosts: 2, gpus_per_host: 2}\n"
      "  - {site: y, count: 1}\n"
      "  - {site: x, count: 2}\n"
      "  - {name: lab, site: y}\n"
      "  - {name: box, site: y, gpus_per_host: 2}\n"
      "  - {site: y}\n"
      "  - {site: x, hosts: 1}\n" +
      links);
  CHECK(ids(topology) == std::vector<std::string>{"x/0:0", "x/0:1", "x/1:0", "x/1:1", "y/0", "x/2", "x/3",
                                                  "lab", "box:0", "box:1", "y/1", "x/4"});
  std::vector<int> hosts, sites;
  for (const Device& device : topology.devices) {
    hosts.push_back(device.host);
    sites.push_back(device.site);
  }
  CHECK(hosts == std::vector<int>{0, 0, 1, 1, 2, 3, 4, 5, 6, 6, 7, 8});
  CHECK(sites == std::vector<int>{0, 0, 0, 0, 1, 0, 0, 1, 1, 1, 1, 0});
  CHECK(topology.name == "t");
  CHECK(topology.fairness == Fairness::equal);
}

TEST_CASE("a device has the values of its entry") {
  const Topology topology = read(
      "version: 1\nfairness: rtt\n"
      "gpus: [{name: X1, memory: 10 GB}, {name: T4, memory: 15 GB}]\n"
      "sites: [{name: b, uplink: 1 Gbps}, {name: a, downlink: 2 Gbps}]\n"
      "devices:\n"
      "  - {site: a, gpu: X1, price: 2.1 USD/h, uplink: 40 Mbps, downlink: 250 Mbps, speed: 0.8}\n"
      "  - {site: b, gpu: T4}\n"
      "  - {site: b}\n" +
      links);
  CHECK(topology.name == "t");  // from the file name t.yaml
  CHECK(topology.fairness == Fairness::rtt);
  CHECK(topology.sites[0].name == "b");
  CHECK(topology.sites[0].uplink.value() == 1e9);
  CHECK(topology.sites[0].downlink == unlimited);
  CHECK(topology.sites[1].downlink.value() == 2e9);
  const Device& first = topology.devices[0];
  CHECK(first.site == 1);
  CHECK(topology.gpus[at(first.gpu)].name == "X1");
  CHECK(topology.gpus[at(topology.devices[1].gpu)].memory.value() == 15e9);
  CHECK(topology.devices[2].gpu == -1);
  CHECK(first.price->value() == 2.1);
  CHECK(first.uplink.value() == 40e6);
  CHECK(first.downlink.value() == 250e6);
  CHECK(first.speed == 0.8);
  CHECK_FALSE(topology.devices[1].price);
  const Topology mapped = read("version: 1\nsites: {b: {uplink: 1 Gbps}}\ndevices: [{site: b}]\n");
  CHECK(mapped.sites[0].uplink.value() == 1e9);
}

TEST_CASE("a host's network card is shared by all its GPUs") {
  const Topology topology = read(
      "version: 1\ndevices:\n"
      "  - {site: a, hosts: 2, gpus_per_host: 2, uplink: 3 Gbps, host_uplink: 1 Gbps, host_downlink: 2 "
      "Gbps}\n"
      "  - {site: a, name: m, host_downlink: 4 Gbps}\n" +
      links);
  for (const std::size_t i : {0U, 1U, 2U, 3U}) {
    CHECK(topology.devices[i].uplink.value() == 3e9);
    CHECK(topology.devices[i].host_uplink.value() == 1e9);
    CHECK(topology.devices[i].host_downlink.value() == 2e9);
  }
  CHECK(topology.devices[4].host_uplink == unlimited);
  CHECK(topology.devices[4].host_downlink.value() == 4e9);
  CHECK(devices_error("  - {site: a, host_uplnik: 1 Gbps}\n") ==
        "t.yaml:3:15: unknown key `host_uplnik`; did you mean `host_uplink`?");
  CHECK(devices_error("  - {site: a, host_downlink: 0 bps}\n") ==
        "t.yaml:3:30: `host_downlink`: must be above zero; found `0 bps`");
}

TEST_CASE("a single device needs no links") {
  CHECK(read("version: 1\ndevices: [{site: a}]\n").size() == 1);
  CHECK(error_text("version: 1\ndevices: [{site: a, count: 2}]\n") ==
        "t.yaml:1:1: missing key `links` or `measured`");
}

TEST_CASE("entries of devices are validated") {
  CHECK(devices_error("  - {site: a, count: 0}\n") ==
        "t.yaml:3:22: `count`: expected a whole number from 1 to 8192; found `0`");
  CHECK(devices_error("  - {site: a, count: 999999999999}\n") ==
        "t.yaml:3:22: `count`: expected a whole number from 1 to 8192; found `999999999999`");
  CHECK(devices_error("  - {site: a, count: 8192}\n  - {site: b}\n") ==
        "t.yaml:4:5: more than 8192 devices in all");
  CHECK(devices_error("  - {site: a, hosts: 8192, gpus_per_host: 8192}\n") ==
        "t.yaml:3:5: more than 8192 devices in all");
  CHECK(
      devices_error("  - {site: a, count: 2, hosts: 2}\n") ==
      "t.yaml:3:5: `count` is for hosts with one GPU and cannot be combined with `hosts` or `gpus_per_host`");
  CHECK(devices_error("  - {site: a, gpus_per_host: 2}\n") ==
        "t.yaml:3:5: `gpus_per_host` requires `hosts` or `name`");
  CHECK(devices_error("  - {site: a, name: m, count: 2}\n") ==
        "t.yaml:3:5: `name` is for a single machine and cannot be combined with `count` or `hosts`");
  CHECK(devices_error("  - {count: 2}\n") == "t.yaml:3:5: missing key `site`");
  CHECK(devices_error("  - {sites: a}\n") == "t.yaml:3:6: unknown key `sites`; did you mean `site`?");
  CHECK(devices_error("  - {site: a, gpu: V100-16G}\n") ==
        "t.yaml:3:20: unknown GPU `V100-16G`; did you mean `V100-16GB`?");
  CHECK(devices_error("  - {site: a, speed: 0}\n") == "t.yaml:3:22: `speed`: must be above zero; found `0`");
  CHECK(devices_error("  - {site: a, speed: .nan}\n") ==
        "t.yaml:3:22: `speed`: expected a decimal number; found `.nan`");
  CHECK(devices_error("  - {site: a, price: 2}\n") ==
        "t.yaml:3:22: `price`: expected a price with its unit (USD/h) such as `2.1 USD/h`; found `2`");
  CHECK(devices_error("  - {site: a, name: m}\n  - {site: b, name: m}\n") ==
        "t.yaml:4:21: machine `m` is given twice, first at t.yaml:3:21");
  CHECK(devices_error("  - {site: a, name: b}\n  - {site: b}\n") ==
        "t.yaml:3:21: machine `b` has the name of a site");
  CHECK(devices_error("  - {site: a/b}\n") ==
        "t.yaml:3:12: `site`: `a/b` contains `/` or `:`, which separate site, host and GPU in ids");
  CHECK(devices_error("  - {site: host}\n") ==
        "t.yaml:3:12: `site`: `host` is not allowed as a name: it has a special meaning in links");
  CHECK(devices_error("  - {site: a, name: \"*\"}\n") ==
        "t.yaml:3:21: `name`: `*` is not allowed as a name: it has a special meaning in links");
  CHECK(devices_error("  - {site: \"\"}\n") == "t.yaml:3:12: `site`: must not be empty");
  CHECK(devices_error("  - a\n") == "t.yaml:3:5: expected a map; found `a`");
  CHECK(error_text("version: 1\ndevices: []\n" + links) == "t.yaml:2:10: `devices`: must not be empty");
  CHECK(error_text("version: 1\n" + links) == "t.yaml:1:1: missing key `devices`");
  CHECK(error_text("version: 1\ndevices: 3\n" + links) ==
        "t.yaml:2:10: `devices`: expected a list; found `3`");
}

TEST_CASE("sites are validated") {
  const auto sites = [](const std::string& text) {
    return error_text("version: 1\nsites: " + text + "\ndevices: [{site: oregn}]\n");
  };
  CHECK(sites("[{name: oregon}]") == "t.yaml:3:18: site `oregn` is not in `sites`; did you mean `oregon`?");
  CHECK(sites("[{name: a}, {name: a}]") == "t.yaml:2:27: site `a` is given twice");
  CHECK(sites("[{name: a, uplink: 0 bps}]") == "t.yaml:2:27: `uplink`: must be above zero; found `0 bps`");
  CHECK(sites("[{nam: a}]") == "t.yaml:2:10: unknown key `nam`; did you mean `name`?");
  CHECK(sites("{a: 3}") == "t.yaml:2:12: `a`: expected a map; found `3`");
}

TEST_CASE("the whole file is validated") {
  CHECK(error_text("devices: []") == "t.yaml:1:1: missing `version: 1`, which a topology begins with");
  CHECK(error_text("version: 1\ndevises: []\n") ==
        "t.yaml:2:1: unknown key `devises`; did you mean `devices`?");
  CHECK(error_text("version: 1\nfairness: equl\n") ==
        "t.yaml:2:11: `fairness`: unknown `equl`; did you mean `equal`?");
  CHECK(
      error_text("version: 1\ndevices: [{site: a}]\nlinks: [{within: *, latency: 1 ms, bandwidth: 1 Gbps}]\n")
          .ends_with("write a literal star in quotes: \"*\""));
  CHECK_THROWS_WITH(read_topology("/nonexistent.yaml"),
                    "/nonexistent.yaml: cannot be opened: No such file or directory");
}

TEST_CASE("a topology names the library that sends its messages") {
  const std::string devices = "devices: [{site: a}]\n";
  CHECK_FALSE(read("version: 1\n" + devices).transport.has_value());
  const Topology mpi = read("version: 1\ntransport: mpi\n" + devices);
  REQUIRE(mpi.transport.has_value());
  CHECK(mpi.transport->handshakes == 2);
  CHECK(mpi.transport->window.value() == 2.8e6);
  const Topology gloo = read("version: 1\ntransport: {library: gloo, window: 1 MB}\n" + devices);
  CHECK(gloo.transport->handshakes == 1);
  CHECK(gloo.transport->window.value() == 1e6);
  CHECK(error_text("version: 1\ntransport: glo\n") ==
        "t.yaml:2:12: `transport`: unknown `glo`; did you mean `gloo`?");
  CHECK(error_text("version: 1\ntransport: {library: tcp, window: 10 kB}\n") ==
        "t.yaml:2:35: `window`: must be at least the initial window of 14480 B");
  CHECK(error_text("version: 1\ntransport: {window: 1 MB}\n") == "t.yaml:2:12: missing key `library`");
}

TEST_CASE("measured matrices are read relative to the topology's folder") {
  const TemporaryFolder folder;
  folder.write("l.csv", "0,67,3\n60,0,3\n0,1,0\n");
  folder.write("b.csv", "0,0.79,1\n0.8,0,1\n1,1,0\n");
  const std::string head = "version: 1\ndevices: [{site: a, count: 2}, {site: b}]\n";
  const std::string bandwidth = "  bandwidth: {file: ./b.csv, unit: Gbps}\n";
  folder.write("t.yaml", head + "measured:\n  latency: {file: l.csv, unit: ms}\n" + bandwidth);
  const Topology topology = read_topology(folder.path() / "t.yaml");
  CHECK(topology.link(0, 1).latency.value() == 0.067);
  CHECK(topology.link(1, 0).bandwidth.value() == 0.8e9);
  CHECK(topology.link(2, 0).latency.value() == 0);
  CHECK(topology.link(0, 1).capacity == unlimited);
  const Topology round_trip =
      read(head + "measured:\n  rtt: {file: l.csv, unit: ms}\n" + bandwidth, folder.path());
  CHECK(round_trip.link(1, 0).latency.value() == 0.03);
}

TEST_CASE("measured matrices are validated") {
  const TemporaryFolder folder;
  folder.write("one.csv", "0\n");
  folder.write("two.csv", "0,1\n-,0\n");
  const auto measured = [&](const std::string& text) {
    return error_text("version: 1\ndevices: [{site: a, count: 2}]\nmeasured: " + text + "\n", folder.path());
  };
  const auto latency = [&](const std::string& text) { return measured("{latency: " + text + "}"); };
  const std::string place = folder.path().string();
  CHECK(measured("{}") == "t.yaml:3:11: missing key `latency` (one way) or `rtt` (round trip)");
  CHECK(measured("{latency: 1, rtt: 1}") ==
        "t.yaml:3:11: give `latency` (one way) or `rtt` (round trip), not both");
  CHECK(latency("{file: l.csv}") == "t.yaml:3:21: missing key `unit`");
  CHECK(latency("{file: l.csv, unit: sm}") ==
        "t.yaml:3:41: `unit`: `sm` is not a unit of time; did you mean `ms`?");
  CHECK(latency("{file: l.csv, unit: Gbps}") ==
        "t.yaml:3:41: `unit`: `Gbps` is not a unit of time; known: `ns`, `us`, `ms`, `s`, `min`, `h`");
  CHECK(latency("{file: /etc/passwd, unit: ms}") ==
        "t.yaml:3:28: `file`: `/etc/passwd` is outside the folder of this file");
  CHECK(latency("{file: a/../../x.csv, unit: ms}") ==
        "t.yaml:3:28: `file`: `a/../../x.csv` is outside the folder of this file");
  CHECK(latency("{file: l.csv, unit: ms}") ==
        "t.yaml:3:28: `file`: " + place + "/l.csv: cannot be opened: No such file or directory");
  CHECK(latency("{file: one.csv, unit: ms}") ==
        place + "/one.csv:2:1: expected 2 rows, as the topology has 2 devices; found 1");
  CHECK(latency("{file: two.csv, unit: ms}") == place + "/two.csv:2:1: a/1 → a/0 is not measured");
  CHECK(error_text("version: 1\ndevices: [{site: a, count: 2}]\nmeasured: {}\n" + links) ==
        "t.yaml:3:11: give `links` or `measured`, not both");
}

TEST_CASE("four thousand devices in 64 sites become 64 ports") {
  std::string text = "version: 1\ndevices:\n";
  for (int site = 0; site < 64; ++site) text += "  - {site: s" + std::to_string(site) + ", count: 64}\n";
  text += "links:\n  - {within: \"*\", latency: 1 ms, bandwidth: 10 Gbps}\n";
  for (int a = 0; a < 64; ++a)
    for (int b = a + 1; b < 64; ++b)
      text += "  - {between: [s" + std::to_string(a) + ", s" + std::to_string(b) +
              "], latency: " + std::to_string(a + b) + " ms, bandwidth: 1 Gbps}\n";
  const Topology topology = read(text);
  CHECK(topology.size() == 4096);
  CHECK(std::get<RuleLinks>(topology.links).table.rows() == 64);
  CHECK(topology.link(4095, 0).latency.value() == 0.063);
  CHECK(topology.link(0, 63).bandwidth.value() == 10e9);
}
