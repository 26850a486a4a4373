// Topologies with more hosts like one that they have.
#include <variant>

#include "core/cluster/more_hosts.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/heterogeneous_hosts.hpp"

using namespace dtfm;

TEST_CASE("more hosts have the devices and the links of the host that they are like") {
  const Topology topology = host_problem({2, 1}, 1).topology;  // 1e7 B/s within hosts, 2e6 B/s between them
  CHECK(host_devices(topology, 1) == std::vector<int>{0, 1});
  const Topology more = with_more_hosts(topology, 0, 2);
  REQUIRE(more.size() == 7);
  CHECK(host_devices(more, 3) == std::vector<int>{3, 4});
  CHECK(host_devices(more, 6) == std::vector<int>{5, 6});
  const auto bandwidth = [&](int from, int to) { return more.link(from, to).bandwidth; };
  CHECK(bandwidth(3, 4) == topology.link(0, 1).bandwidth);
  CHECK(bandwidth(3, 2) == topology.link(0, 2).bandwidth);
  CHECK(bandwidth(3, 0) == topology.link(0, 2).bandwidth);
  CHECK(bandwidth(3, 5) == topology.link(0, 2).bandwidth);
}

TEST_CASE("a copy of the only host of a site has the links of that site to another one") {
  const Topology topology = flat_topology({1, 1}, link_of(0.001, 1e7), link_of(0.1, 1e6));
  Topology alone = topology;
  auto& rules = std::get<RuleLinks>(alone.links);
  rules.table(0, 0) = -1;
  const Topology more = with_more_hosts(alone, 0, 1);
  CHECK(more.link(0, 2).bandwidth == topology.link(0, 1).bandwidth);
  CHECK(more.link(2, 1).bandwidth == topology.link(0, 1).bandwidth);
}

// The GPUs of the only host are of two classes, so no link inside it is one between devices of equal class.
TEST_CASE("a copy of the only host has a link from inside it if there is no other") {
  Topology alone = host_problem({2}, 1).topology;
  auto& rules = std::get<RuleLinks>(alone.links);
  const int inside = rules.same_host(0, 0);
  rules.link_class = {0, 1};
  rules.table = rules.same_host = Eigen::MatrixXi::Constant(2, 2, -1);
  rules.same_host(0, 1) = rules.same_host(1, 0) = inside;
  const Topology more = with_more_hosts(alone, 0, 1);
  for (const int from : {0, 1})
    for (const int to : {2, 3}) CHECK(more.link_index(from, to) == inside);
}

TEST_CASE("measured links of a copy are those of its host") {
  Topology topology = host_problem({2, 1}, 1).topology;
  MeasuredLinks links{Eigen::MatrixXd::Constant(3, 3, 1), Eigen::MatrixXd::Constant(3, 3, 5)};
  links.bandwidth(0, 1) = links.bandwidth(1, 0) = 9;
  topology.links = links;
  const Topology more = with_more_hosts(topology, 0, 1);
  const auto& found = std::get<MeasuredLinks>(more.links);
  REQUIRE(found.bandwidth.rows() == 5);
  CHECK(found.bandwidth(3, 4) == 9);
  CHECK(found.bandwidth(0, 1) == 9);
  CHECK(found.bandwidth(0, 4) == 5);
  CHECK(found.bandwidth(0, 3) == 5);
  CHECK(found.bandwidth(3, 2) == 5);
}
