#include "core/cluster/link_classes.hpp"

#include <string>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

/// The links of every pair, as a measurement would list them.
MeasuredLinks measured(const Topology& topology) {
  const int devices = topology.size();
  MeasuredLinks links{Eigen::MatrixXd::Zero(devices, devices), Eigen::MatrixXd::Ones(devices, devices)};
  for (int from = 0; from < devices; ++from)
    for (int to = 0; to < devices; ++to) {
      if (from == to) continue;
      links.latency(from, to) = topology.link(from, to).latency.value();
      links.bandwidth(from, to) = topology.link(from, to).bandwidth.value();
    }
  return links;
}

/// Sites of six devices each, two of them on one host, with faster links inside hosts.
Topology by_site(Rng& rng, int sites) {
  const auto random_link = [&] {
    Link link;
    link.latency = Seconds(rng.uniform());
    link.bandwidth = BitsPerSecond(1e9 * (1 + rng.uniform()));
    return link;
  };
  Topology topology;
  RuleLinks rules;
  rules.table.setZero(sites, sites);
  rules.same_host.setConstant(sites, sites, -1);
  for (int site = 0; site < sites; ++site) {
    topology.sites.push_back({"s" + std::to_string(site)});
    for (int other = 0; other < sites; ++other) {
      rules.table(site, other) = static_cast<int>(rules.links.size());
      rules.links.push_back(random_link());
    }
    rules.same_host(site, site) = static_cast<int>(rules.links.size());
    rules.links.push_back(random_link());
  }
  for (int i = 0; i < 6 * sites; ++i) {
    Device device;
    device.site = i % sites;
    device.host = i / sites == 1 ? device.site : i;  // the first two of a site share a host
    topology.devices.push_back(device);
    rules.link_class.push_back(device.site);
  }
  topology.links = rules;
  return topology;
}

}  // namespace

TEST_CASE("measured links of interchangeable devices become the rules that they follow") {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 0);
    const int sites = 1 + static_cast<int>(rng.below(5));
    const Topology topology = by_site(rng, sites);
    const auto rules = rules_of(measured(topology), topology.devices);
    REQUIRE(rules);
    CHECK(rules->table.rows() == sites);
    Topology found = topology;
    found.links = *rules;
    CHECK(found.fingerprint() == topology.fingerprint());
    for (int from = 0; from < topology.size(); ++from)
      for (int to = 0; to < topology.size(); ++to)
        if (from != to) {
          CHECK(found.link(from, to).latency == topology.link(from, to).latency);
          CHECK(found.link(from, to).bandwidth == topology.link(from, to).bandwidth);
        }
  }
}

TEST_CASE("devices with one different link are classes of their own") {
  int with_rules = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 1);
    const Topology topology = by_site(rng, 3);
    MeasuredLinks links = measured(topology);
    const int from = static_cast<int>(rng.below(18)), to = (from + 1 + static_cast<int>(rng.below(17))) % 18;
    links.bandwidth(from, to) *= 1.5;
    const auto rules = rules_of(links, topology.devices);
    if (!rules) continue;  // inside a host, where nothing distinguishes the devices
    ++with_rules;
    CHECK(rules->table.rows() > 3);
    Topology found = topology, given = topology;
    found.links = *rules;
    given.links = links;
    CHECK(found.fingerprint() == given.fingerprint());
  }
  CHECK(with_rules > 10);
}

TEST_CASE("links that all differ have no rules") {
  for (const int devices : {1, 2, 3, 12}) {
    CAPTURE(devices);
    Rng rng = Rng::for_task(5, static_cast<std::uint64_t>(devices));
    Topology topology = by_site(rng, 2);
    topology.devices.resize(at(devices));
    MeasuredLinks links{Eigen::MatrixXd::Random(devices, devices), Eigen::MatrixXd::Random(devices, devices)};
    CHECK_FALSE(rules_of(links, topology.devices));
  }
}
