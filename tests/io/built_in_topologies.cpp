// Checks the shipped topologies against the measurements that they are made from.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

Topology shipped(const std::string& name) {
  return read_topology(std::filesystem::path(DTFM_SOURCE_DIR) / "topologies" / (name + ".yaml"));
}

int first_device(const Topology& topology, const std::string& site) {
  for (int i = 0; i < topology.size(); ++i) {
    const auto index = at(topology.devices[at(i)].site);
    if (topology.sites[index].name == site) return i;
  }
  FAIL("no site " << site);
  return -1;
}

/// Returns the link between the first devices of two sites.
Link link(const Topology& topology, const std::string& from, const std::string& to) {
  return topology.link(first_device(topology, from), first_device(topology, to));
}

/// Returns the rows of a CSV file without its header, or, with a warning, nothing if the measurements are
/// missing.
std::vector<std::vector<std::string>> measurements(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(DTFM_SHARED_DATA) / name;
  std::ifstream file(path);
  if (!file) WARN("skipped: no measurements in " << path);
  std::vector<std::vector<std::string>> rows;
  for (std::string line; std::getline(file, line);) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  if (!rows.empty()) rows.erase(rows.begin());
  return rows;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

}  // namespace

TEST_CASE("every shipped topology can be read") {
  int count = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(DTFM_SOURCE_DIR) / "topologies")) {
    if (file.path().extension() != ".yaml") continue;
    CAPTURE(file.path());
    const Topology topology = read_topology(file.path());
    CHECK(topology.name == file.path().stem());
    for (const Device& device : topology.devices) CHECK(device.gpu >= 0);
    ++count;
  }
  CHECK(count == 11);
}

TEST_CASE("the five cases have 64 V100 GPUs and the published links") {
  for (const char* name : {"datacenter", "spot", "spot-10g", "universities", "regional", "worldwide"}) {
    const Topology topology = shipped(name);
    CHECK(topology.size() == 64);
    for (const Device& device : topology.devices) CHECK(topology.gpus[at(device.gpu)].name == "V100-16GB");
  }
  const Topology datacenter = shipped("datacenter");
  CHECK(datacenter.link(0, 7).bandwidth.value() == 100e9);
  CHECK(datacenter.link(7, 8).bandwidth.value() == 3.125e9);
  CHECK(datacenter.link(7, 8).latency.value() == 0);
  const Topology spot = shipped("spot");
  CHECK(spot.link(28, 31).bandwidth.value() == 100e9);
  CHECK(spot.link(3, 4).bandwidth.value() == 1.25e9);
  CHECK(spot.link(32, 33).bandwidth.value() == 1.25e9);
  const Topology spot_10g = shipped("spot-10g");
  CHECK(spot_10g.link(28, 31).bandwidth.value() == 100e9);
  CHECK(spot_10g.link(3, 4).bandwidth.value() == 10e9);
  CHECK(spot_10g.link(32, 33).bandwidth.value() == 10e9);
  CHECK(spot_10g.link(32, 33).latency.value() == 0);
  const Topology universities = shipped("universities");
  CHECK(universities.link(0, 31).bandwidth.value() == 5e9);
  CHECK(universities.link(0, 31).latency.value() == 0.001);
  CHECK(universities.link(31, 32).bandwidth.value() == 1.12e9);
  CHECK(universities.link(31, 32).latency.value() == 0.011);
  const Topology regional = shipped("regional");
  CHECK(link(regional, "virginia", "oregon").bandwidth.value() == 1.15e9);
  CHECK(link(regional, "ohio", "california").latency.value() == 0.052);
  CHECK(regional.link(0, 1).bandwidth.value() == 2e9);
  CHECK(regional.link(0, 1).latency.value() == 0.005);
  const Topology worldwide = shipped("worldwide");
  CHECK(worldwide.sites[0].name == "oregon");
  CHECK(worldwide.sites[7].name == "ireland");
  CHECK(worldwide.link(0, 1).bandwidth.value() == 2e9);
}

// The GPU's share of its host's network, and the rate of a sender's class in the emulation.
TEST_CASE("the five cases define what flows of one device share") {
  for (const auto& [name, rate] : {std::pair("datacenter", 3.125e9), std::pair("spot", 1.25e9)})
    for (const Device& device : shipped(name).devices) {
      CHECK(device.uplink.value() == rate);
      CHECK(device.downlink.value() == rate);
    }
  for (const Device& device : shipped("spot-10g").devices) {
    CHECK(device.host_uplink.value() == 10e9);
    CHECK(device.host_downlink.value() == 10e9);
  }
  for (const char* name : {"universities", "regional", "worldwide"}) {
    const Topology topology = shipped(name);
    for (int to = 1; to < topology.size(); ++to) CHECK(topology.link(0, to).shared_by_sender);
  }
}

TEST_CASE("AWS regions have the measured latencies and bandwidths") {
  for (const char* name : {"worldwide", "aws-ten-regions"}) {
    const Topology topology = shipped(name);
    int pairs = 0;
    for (const auto& row : measurements("aws-regions.csv")) {
      const auto is_there = [&](const std::string& site) {
        return std::any_of(topology.sites.begin(), topology.sites.end(),
                           [&](const Site& s) { return s.name == site; });
      };
      const std::string a = lower(row[0]), b = lower(row[1]);
      if (!is_there(a) || !is_there(b)) continue;
      ++pairs;
      CHECK(link(topology, a, b).latency.value() == Approx(std::stod(row[2]) / 1e3));
      CHECK(link(topology, a, b).bandwidth.value() == Approx(std::stod(row[3]) * 1e9));
      CHECK(link(topology, b, a).bandwidth == link(topology, a, b).bandwidth);
    }
    const int sites = static_cast<int>(topology.sites.size());
    if (pairs > 0) CHECK(pairs == sites * (sites - 1) / 2);
  }
}

TEST_CASE("continents and clouds have the measured round-trip times and flow rates") {
  const std::map<std::string, std::string> sites = {{"US", "us"},         {"EU", "eu"},     {"ASIA", "asia"},
                                                    {"AUS", "australia"}, {"GC", "google"}, {"AWS", "aws"},
                                                    {"Azure", "azure"}};
  const std::map<std::string, std::string> files = {{"four-continents", "multicloud/gc4_links.csv"},
                                                    {"three-clouds", "multicloud/multicloud_links.csv"}};
  for (const auto& [name, file] : files) {
    const Topology topology = shipped(name);
    for (const auto& row : measurements(file)) {
      const int from = first_device(topology, sites.at(row[0]));
      const int to = first_device(topology, sites.at(row[1]));
      const Link found = topology.link(from, from == to ? to + 1 : to);
      CHECK(found.bandwidth.value() == Approx(std::stod(row[2]) * 1e9));
      CHECK(found.latency.value() == Approx(std::stod(row[3]) / 2e3));
    }
  }
  const Topology hybrid = shipped("onprem-cloud");
  CHECK(link(hybrid, "onprem-dgx", "lambda-us").bandwidth.value() == 0.07e9);
  CHECK(link(hybrid, "cloud-us", "onprem-rtx").latency.value() == Approx(0.0754));
  CHECK(link(shipped("three-clouds"), "aws", "azure").latency.value() == Approx(0.02561));
}

TEST_CASE("twenty regions have the measured round-trip times and capacities") {
  const Topology topology = shipped("multicloud-20");
  CHECK(topology.size() == 80);
  std::map<std::string, int> devices;
  for (const Site& site : topology.sites) devices[site.name] = first_device(topology, site.name);
  CHECK(devices.size() == 20);
  int pairs = 0;
  for (const auto& row : measurements("skyplane/links.csv")) {
    const auto site = [](std::string name) {
      name[name.find(':')] = '-';
      return name;
    };
    const auto from = devices.find(site(row[0])), to = devices.find(site(row[1]));
    if (from == devices.end() || to == devices.end()) continue;
    ++pairs;
    const Link found = topology.link(from->second, to->second);
    CHECK(row[3] == "ok");
    CHECK(found.latency.value() == Approx(std::stod(row[2]) / 2e3));
    CHECK(found.capacity.value() == Approx(std::stod(row[6]) * 1e9));
    CHECK(found.bandwidth.value() <= found.capacity.value());
    // A flow has at most 21 Mbit in flight.
    CHECK(found.bandwidth.value() * 2 * found.latency.value() <= 21.01e6);
  }
  if (pairs > 0) CHECK(pairs == 20 * 19);
}

TEST_CASE("times can be estimated on every device of the shipped topologies in fp16 and in fp32") {
  int topologies = 0;
  for (const auto& file :
       std::filesystem::directory_iterator(std::filesystem::path(DTFM_SOURCE_DIR) / "topologies")) {
    if (file.path().extension() != ".yaml") continue;
    CAPTURE(file.path());
    ++topologies;
    const Topology topology = read_topology(file.path());
    for (const Device& device : topology.devices) {
      CAPTURE(device.id);
      REQUIRE(device.gpu >= 0);
      const Gpu& gpu = topology.gpus[at(device.gpu)];
      CHECK((gpu.peak && gpu.peak_fp32 && gpu.memory_bandwidth));
    }
  }
  CHECK(topologies == 11);
}
