// The order of lines in a topology file does not matter to comparisons.
#include "planner/api/devices/canonical_topology.hpp"

#include <algorithm>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "planner/api/compare.hpp"
#include "planner/io/comparison_document.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/three_sites.hpp"

using namespace dtfm;
using namespace dtfm::api;

namespace {

/// Shuffles every list whose items are lines of their own.
std::string shuffled(const std::string& text, Rng& rng) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  const auto is_item = [](const std::string& line) { return line.starts_with("  - "); };
  for (auto begin = lines.begin(); begin != lines.end();) {
    begin = std::find_if(begin, lines.end(), is_item);
    const auto end = std::find_if_not(begin, lines.end(), is_item);
    rng.shuffle(std::span<std::string>(begin, end));
    begin = end;
  }
  std::string result;
  for (const std::string& line : lines) result += line + "\n";
  return result;
}

Topology parsed(const std::string& text) {
  return io::parse_topology(text, "test.yaml", DTFM_SOURCE_DIR "/topologies");
}

std::string shipped(const std::string& name) {
  std::ifstream file(std::string(DTFM_SOURCE_DIR "/topologies/") + name + ".yaml");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// One to three kinds of hosts at each of two to four sites, with random links between sites.
std::string random_text(Rng& rng) {
  const char* const gpus[] = {"A100-80GB", "V100-16GB", "T4"};
  const auto number = [&](int limit) {
    return static_cast<int>(rng.below(static_cast<std::uint32_t>(limit)));
  };
  const int sites = 2 + number(3);
  std::string text = "version: 1\nname: random\ndevices:\n";
  for (int site = 0; site < sites; ++site)
    for (int entry = 1 + number(2); entry > 0; --entry)
      text += fmt::format("  - {{site: site{}, hosts: {}, gpus_per_host: {}, gpu: {}, uplink: {} Gbps}}\n",
                          site, 1 + number(2), 1 + number(2), gpus[number(3)], 1 + number(3));
  text += "links:\n  - {within: host, latency: 10 us, bandwidth: 100 Gbps}\n";
  text += "  - {within: \"*\", latency: 0.2 ms, bandwidth: 5 Gbps}\n";
  for (int a = 0; a < sites; ++a)
    for (int b = 0; b < a; ++b)
      text += fmt::format("  - {{between: [site{}, site{}], rtt: {} ms, bandwidth: {} Mbps}}\n", a, b,
                          10 + 10 * number(4), 100 * (1 + number(5)));
  return text;
}

CompareRequest request_for(const Topology& topology, bool plans) {
  CompareRequest request;
  request.problem = {canonical_topology(topology), chain_job(4, 1e8, 1e6), Calibration{1, 1e-3, 1, 0},
                     io::built_in_roofline()};
  request.problem.job.training.global_batch = 8;
  for (const std::string& name : compared_schemes())
    if (plans || name != planned_scheme) request.schemes.push_back(name);
  return request;
}

/// The text with the ids of devices replaced by their numbers, longer ids first.
std::string with_numbers(std::string text, const Topology& topology) {
  std::vector<int> order(topology.devices.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return topology.devices[at(a)].id.size() > topology.devices[at(b)].id.size();
  });
  for (const int device : order) {
    const std::string& id = topology.devices[at(device)].id;
    for (auto found = text.find(id); found != std::string::npos; found = text.find(id))
      text.replace(found, id.size(), fmt::format("#{}", device));
  }
  return text;
}

std::string document_of(const Topology& topology, bool plans) {
  const CompareRequest request = request_for(topology, plans);
  nlohmann::ordered_json document = io::comparison_document(request, compare(request));
  document["topology"].erase("fingerprint");  // of the ids, which number the hosts of a site in file order
  return with_numbers(document.dump(1), request.problem.topology);
}

void check_any_order(const std::string& text, bool plans, int orders, Rng& rng) {
  const std::string expected = document_of(parsed(text), plans);
  for (int i = 0; i < orders; ++i) {
    const std::string other = shuffled(text, rng);
    CAPTURE(other);
    CHECK(document_of(parsed(other), plans) == expected);
  }
}

}  // namespace

TEST_CASE("any order of lines gives the same comparison") {
  Rng rng = Rng::for_task(1, 1);
  check_any_order(three_sites, false, 2, rng);
}

// The planner searches in the order of devices.
TEST_CASE("any order of lines gives the same plan in a comparison") {
  Rng rng = Rng::for_task(5, 5);
  std::string text = three_sites;
  for (const auto& [from, to] : {std::pair("hosts: 2, gpus_per_host: 4", "hosts: 1, gpus_per_host: 2"),
                                 std::pair("hosts: 1, gpus_per_host: 8", "hosts: 1, gpus_per_host: 2"),
                                 std::pair("site: home, count: 2", "site: home, count: 1")})
    text.replace(text.find(from), std::string(from).size(), to);
  check_any_order(text, true, 2, rng);
}

TEST_CASE("any order of lines of a random topology gives the same comparison") {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 2);
    const std::string text = random_text(rng);
    check_any_order(text, false, 2, rng);
  }
}

TEST_CASE("any order of lines gives the same canonical topology") {
  for (const char* name : {"worldwide", "onprem-cloud", "multicloud-20", "regional", "universities",
                           "four-continents", "three-clouds", "aws-ten-regions"}) {
    CAPTURE(name);
    Rng rng = Rng::for_task(3, 3);
    const std::string text = shipped(name);
    const Topology expected = canonical_topology(parsed(text));
    for (int i = 0; i < 5; ++i)
      CHECK(canonical_topology(parsed(shuffled(text, rng))).fingerprint() == expected.fingerprint());
    CHECK(canonical_topology(expected).fingerprint() == expected.fingerprint());
  }
}

// The entries of one site number its hosts, so that ids differ, but not the machines in their order.
TEST_CASE("hosts of a site are in the order of their devices") {
  const std::string hosts = "  - {site: datacenter, hosts: 8, gpus_per_host: 4, gpu: V100-16GB, ";
  const std::string text = shipped("spot");
  REQUIRE(text.find(hosts) != std::string::npos);
  Rng rng = Rng::for_task(4, 4);
  for (int i = 0; i < 4; ++i) {
    const Topology topology = canonical_topology(parsed(shuffled(text, rng)));
    for (int device = 0; device < 64; ++device)
      CHECK(topology.devices[at(device)].host == (device < 32 ? device / 4 : device - 24));
  }
}

// The fastest GPUs first; then the lab, which has more bandwidth to the cloud than home.
TEST_CASE("sites are in the order of speed, hosts and bandwidth") {
  const Topology topology = canonical_topology(parsed(three_sites));
  CHECK(topology.sites[0].name == "cloud");
  CHECK(topology.sites[1].name == "lab");
  CHECK(topology.sites[2].name == "home");
  CHECK(topology.devices[9].id == "lab/0:1");
  CHECK(topology.devices[17].id == "home/1");
  CHECK(topology.size() == 18);
}
