// Random networks for property tests, from costs that all differ to costs with many ties.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"

namespace dtfm {
using namespace cost;

/// Returns a topology of devices that differ only in their links.
inline Topology measured_topology(const Eigen::MatrixXd& latency, const Eigen::MatrixXd& bandwidth) {
  Topology topology;
  topology.sites = {{"here"}};
  for (int i = 0; i < static_cast<int>(latency.rows()); ++i) {
    Device device;
    device.id = std::to_string(i);
    device.host = i;
    topology.devices.push_back(device);
  }
  topology.links = MeasuredLinks{latency, bandwidth};
  return topology;
}

/// Returns a topology in which both directions of every pair have independent links: 1 … 100 ms, 0.1 … 10
/// Gbps.
inline Topology directed_topology(Rng& rng, int devices) {
  Eigen::MatrixXd latency(devices, devices), bandwidth(devices, devices);
  for (int a = 0; a < devices; ++a) {
    for (int b = 0; b < devices; ++b) {
      latency(a, b) = 1e-3 * (1 + 99 * rng.uniform());
      bandwidth(a, b) = 1e9 / (0.1 + 9.9 * rng.uniform());
    }
  }
  return measured_topology(latency, bandwidth);
}

enum class Network {
  smooth,       // sync and hop costs of every pair drawn from [1, 2)
  ties,         // drawn from {1, 2, 3}
  directed,     // from the links of `directed_topology`
  sites,        // equal within a site; between two sites from {1, …, 9}
  even_sites,   // sites of equal size, costs from {1, 2}: many sites are interchangeable
  noisy_sites,  // as `sites`, with noise on every pair
  regions       // sites in two regions; hop 1 within, 10 or 20 between; sync across regions 1 or 100
};
inline constexpr std::array all_networks{Network::smooth, Network::ties,       Network::directed,
                                         Network::sites,  Network::even_sites, Network::noisy_sites,
                                         Network::regions};

inline CommCostModel empty_model(int stages, int replicas) {
  const int n = stages * replicas;
  return {stages, replicas, Eigen::MatrixXd::Zero(n, n), Eigen::MatrixXd::Zero(n, n)};
}

/// Returns a symmetric size × size table whose entries, including the diagonal, are draw(row, column).
template <class Draw>
Eigen::MatrixXd symmetric_table(int size, const Draw& draw) {
  Eigen::MatrixXd table(size, size);
  for (int a = 0; a < size; ++a)
    for (int b = 0; b <= a; ++b) table(a, b) = table(b, a) = draw(a, b);
  return table;
}

/// Expands a table between sites to one between devices, with zeros on the diagonal.
inline Eigen::MatrixXd by_site(const std::vector<int>& site, const Eigen::MatrixXd& between) {
  const int n = static_cast<int>(site.size());
  return symmetric_table(n, [&](int a, int b) { return a == b ? 0 : between(site[at(a)], site[at(b)]); });
}

/// Returns the site of each device, in random order.
inline std::vector<int> random_sites(Rng& rng, int devices, bool even) {
  const int sites = 2 + static_cast<int>(rng.below(static_cast<std::uint32_t>(std::max(1, devices - 2))));
  std::vector<int> site(at(devices));
  for (std::size_t i = 0; i < site.size(); ++i)
    site[i] =
        even ? static_cast<int>(i) % sites : static_cast<int>(rng.below(static_cast<std::uint32_t>(sites)));
  rng.shuffle(std::span(site));
  return site;
}

inline CommCostModel region_model(Rng& rng, int stages, int replicas) {
  const int n = stages * replicas;
  const int sites = std::min(n, 3 + static_cast<int>(rng.below(3)));
  std::vector<int> site(at(n));
  for (int i = 0; i < n; ++i) site[at(i)] = i * sites / n;
  const auto one_in = [&](std::uint32_t n_th) { return rng.below(n_th) == 0; };
  const auto same_region = [&](int a, int b) { return a * 2 / sites == b * 2 / sites; };
  CommCostModel model = empty_model(stages, replicas);
  model.hop =
      by_site(site, symmetric_table(sites, [&](int a, int b) {
                return same_region(a, b) ? 1.0 + (one_in(6) ? rng.below(4) : 0) : one_in(2) ? 10.0 : 20.0;
              }));
  model.sync = by_site(site, symmetric_table(sites, [&](int a, int b) {
                         return one_in(same_region(a, b) ? 6 : 2) ? 100.0 : 1.0;
                       }));
  return model;
}

/// Returns a model with symmetric costs. Pairs that are expensive to synchronize need not be expensive hops.
inline CommCostModel random_model(Rng& rng, Network network, int stages, int replicas) {
  const int n = stages * replicas;
  if (network == Network::regions) return region_model(rng, stages, replicas);
  if (network == Network::directed) {
    const CommVolumes volumes{Bytes(1e8 * (1 + rng.uniform())), Bytes(1e8 * (1 + rng.uniform()))};
    return comm_cost_model(directed_topology(rng, n), volumes, stages, replicas);
  }
  std::vector<int> site(at(n));
  std::iota(site.begin(), site.end(), 0);
  if (network != Network::smooth && network != Network::ties)
    site = random_sites(rng, n, network == Network::even_sites);
  const std::uint32_t values = network == Network::even_sites ? 2 : network == Network::ties ? 3 : 9;
  CommCostModel model = empty_model(stages, replicas);
  for (Eigen::MatrixXd* matrix : {&model.sync, &model.hop}) {
    const auto between = symmetric_table(
        n, [&](int, int) { return 1.0 + (network == Network::smooth ? rng.uniform() : rng.below(values)); });
    *matrix = by_site(site, between);
    if (network == Network::noisy_sites)
      *matrix += symmetric_table(n, [&](int a, int b) { return a == b ? 0 : rng.uniform(); });
  }
  return model;
}

inline Placement random_placement(Rng& rng, int stages, int replicas) {
  std::vector<int> devices(at(stages) * at(replicas));
  std::iota(devices.begin(), devices.end(), 0);
  rng.shuffle(std::span(devices));
  Placement placement(stages, replicas);
  for (int stage = 0; stage < stages; ++stage)
    for (int replica = 0; replica < replicas; ++replica)
      placement.at(stage, replica) = devices[at(stage * replicas + replica)];
  return placement;
}

}  // namespace dtfm
