#include "planner/cost/bounds/sync_traffic_bound.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_hosts.hpp"

using namespace dtfm;
using namespace dtfm::cost;

// Interchangeable devices are bounded once. Hosts of one to four devices, those of the first four with an
// uplink that their devices share.
TEST_CASE("the bound of all devices is the least of each of them") {
  for (const bool shared : {false, true}) {
    Problem problem = host_problem({4, 4, 2, 2, 1, 1, 1, 1}, 8);
    for (Device& device : problem.topology.edit().devices)
      if (shared && device.host < 4) device.host_uplink = BitsPerSecond(1e7 * (1 + device.host % 2));
    const IterationModel model(problem);
    std::vector<int> devices(16);
    std::iota(devices.begin(), devices.end(), 0);
    const SyncTrafficBound all(model, devices);
    double total_s = 1e300;
    std::vector<double> to_each_s(16, 1e300);
    for (const int device : devices) {
      const SyncTrafficBound one(model, devices, {device});
      total_s = std::min(total_s, one.total_s());
      for (int partners = 0; partners < 16; ++partners)
        to_each_s[at(partners)] = std::min(to_each_s[at(partners)], one.to_each_s(partners));
    }
    CAPTURE(shared);
    CHECK(all.total_s() == Approx(total_s).epsilon(1e-12));
    for (int partners = 0; partners < 16; ++partners)
      CHECK(all.to_each_s(partners) == Approx(to_each_s[at(partners)]).epsilon(1e-12));
  }
}
