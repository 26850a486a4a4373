#include "core/cluster/host_channels.hpp"

#include <numeric>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

using Hops = std::vector<std::vector<std::pair<std::size_t, double>>>;

/// The rings through all devices of a topology, of which device i is on host hosts[i].
Hops rings_through(const std::vector<int>& hosts) {
  Topology topology;
  topology.devices.resize(hosts.size());
  for (std::size_t i = 0; i < hosts.size(); ++i) topology.devices[i].host = hosts[i];
  std::vector<int> devices(hosts.size());
  std::iota(devices.begin(), devices.end(), 0);
  Hops hops;
  for (const auto& of_device : parallel_rings(topology, devices)) {
    hops.emplace_back();
    for (const RingHop& it : of_device) hops.back().emplace_back(it.to, it.share);
  }
  return hops;
}

}  // namespace

// Ring 0 is 0 → 1 → 2 → 3 → 0 and enters the hosts at devices 0 and 2; ring 1 is 1 → 0 → 3 → 2 → 1 and enters
// them at 1 and 3. Each has half of the data.
TEST_CASE("several hosts with equally many devices have as many rings as devices per host") {
  CHECK(rings_through({0, 0, 1, 1}) ==
        Hops{{{1, 0.5}, {3, 0.5}}, {{0, 0.5}, {2, 0.5}}, {{3, 0.5}, {1, 0.5}}, {{2, 0.5}, {0, 0.5}}});
}

TEST_CASE("every device sends and receives all data once in its rings") {
  const Hops hops = rings_through({5, 5, 5, 2, 2, 2, 9, 9, 9});
  std::vector<double> sent(hops.size()), received(hops.size());
  for (std::size_t i = 0; i < hops.size(); ++i)
    for (const auto& [to, share] : hops[i]) {
      sent[i] += share;
      received[to] += share;
    }
  for (std::size_t i = 0; i < hops.size(); ++i) {
    CHECK(sent[i] == Approx(1));
    CHECK(received[i] == Approx(1));
  }
}

TEST_CASE("devices of one host, of unequal hosts, and of a host that comes back are one ring") {
  const auto ring = [](std::size_t count) {
    Hops hops;
    for (std::size_t i = 0; i < count; ++i) hops.push_back({{(i + 1) % count, 1}});
    return hops;
  };
  CHECK(rings_through({0, 0, 0}) == ring(3));
  CHECK(rings_through({0, 1, 2}) == ring(3));
  CHECK(rings_through({0, 0, 1}) == ring(3));
  CHECK(rings_through({0, 0, 1, 1, 0, 0}) == ring(6));
}
