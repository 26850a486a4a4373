// The sets of devices on which schemes are tried.
#include "planner/api/devices/device_sets.hpp"

#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/three_sites.hpp"

using namespace dtfm;
using namespace dtfm::api;

TEST_CASE("schemes try all devices, sites, kinds and the fastest devices") {
  Problem problem{io::parse_topology(three_sites, "test.yaml", "."), chain_job(4, 1e8, 1e6),
                  Calibration{1, 0, 1, 0}, io::built_in_roofline()};
  const auto sizes = [&] {
    std::vector<std::size_t> result;
    for (const auto& it : device_sets(problem)) result.push_back(it.size());
    return result;
  };
  // All, cloud, lab, home; 1, 2, 4 and 16 devices of which the fastest eight are the cloud.
  CHECK(sizes() == std::vector<std::size_t>{18, 8, 8, 2, 1, 2, 4, 16});
  const std::vector<int> two = device_sets(problem)[5];
  for (const int device : two)
    CHECK(problem.topology->devices[at(device)].id.starts_with("cloud/0:"));
  // Equal sites, and equal devices in them, are tried once; of two sites together, all are.
  problem.topology = flat_topology({4, 4}, link_of(1e-4, 1e9), link_of(0.05, 1e8));
  CHECK(sizes() == std::vector<std::size_t>{8, 4, 1, 2});
  problem.topology.edit().devices[6].speed = 2;
  // All; sites; the fast device, all slow ones, and those of its site; the fast one and another.
  CHECK(sizes() == std::vector<std::size_t>{8, 4, 4, 1, 7, 3, 2});
}

TEST_CASE("the devices of a plan are listed by site, and by GPU where a site has several") {
  Topology topology = flat_topology({2, 3}, link_of(1e-4, 1e9), link_of(0.05, 1e8));
  const Plan plan = plan_of(chain_job(4, 1e6, 1e6), 2, 2, 1);
  const auto text = [&] { return format_devices_used(topology, device_counts(topology, plan)); };
  CHECK(text() == "4 of 5 devices: s1×2, s0×2");  // s1 has more devices
  topology.gpus.push_back(topology.gpus.front());
  topology.gpus.back().name = "two";
  topology.devices[3].gpu = 1;
  CHECK(text() == "4 of 5 devices: s1 one×1, s1 two×1, s0×2");
  topology = flat_topology({4}, link_of(1e-4, 1e9), link_of(0.05, 1e8));
  CHECK(text() == "4 devices");
}
