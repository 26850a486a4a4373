// Random networks for property tests, from smooth to full of ties.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "planner/core/rng.hpp"
#include "planner/cost/comm_cost.hpp"

namespace dtfm {

/// Devices that are alike but for their links.
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

/// Every direction of every pair has links of its own: 1 … 100 ms, 0.1 … 10 Gbps.
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
  smooth,      // sync and hop of every pair drawn from [1, 2)
  ties,        // from {1, 2, 3}
  directed,    // from the links of `directed_topology`
  sites,       // alike within a site; between two sites from {1, …, 9}
  even_sites,  // sites of equal size, costs from {1, 2}: many sites that are twins of each other
  noisy_sites  // as sites, with noise on every pair
};
inline constexpr std::array all_networks{Network::smooth, Network::ties,       Network::directed,
                                         Network::sites,  Network::even_sites, Network::noisy_sites};

inline CommCostModel empty_model(int stages, int replicas) {
  const int n = stages * replicas;
  return {stages, replicas, Eigen::MatrixXd::Zero(n, n), Eigen::MatrixXd::Zero(n, n)};
}

/// The site of each device, in a random order of the devices.
inline std::vector<int> random_sites(Rng& rng, int devices, bool even) {
  const int sites = 2 + static_cast<int>(rng.below(static_cast<std::uint32_t>(std::max(1, devices - 2))));
  std::vector<int> site(static_cast<std::size_t>(devices));
  for (std::size_t i = 0; i < site.size(); ++i)
    site[i] =
        even ? static_cast<int>(i) % sites : static_cast<int>(rng.below(static_cast<std::uint32_t>(sites)));
  rng.shuffle(std::span(site));
  return site;
}

/// A model whose costs are symmetric, but sync and hop need not agree on what is far.
inline CommCostModel random_model(Rng& rng, Network network, int stages, int replicas) {
  const int n = stages * replicas;
  if (network == Network::directed) {
    const CommVolumes volumes{Bytes(1e8 * (1 + rng.uniform())), Bytes(1e8 * (1 + rng.uniform()))};
    return comm_cost_model(directed_topology(rng, n), volumes, stages, replicas);
  }
  CommCostModel model = empty_model(stages, replicas);
  const bool by_site = network != Network::smooth && network != Network::ties;
  const auto site = random_sites(rng, n, network == Network::even_sites);
  const auto value = [&](std::uint32_t most) { return 1.0 + rng.below(most); };
  for (Eigen::MatrixXd* matrix : {&model.sync, &model.hop}) {
    Eigen::MatrixXd between(n, n);
    for (int a = 0; a < n; ++a)
      for (int b = 0; b <= a; ++b)
        between(a, b) = between(b, a) = value(network == Network::even_sites ? 2
                                              : network == Network::ties     ? 3
                                                                             : 9);
    for (int a = 0; a < n; ++a) {
      for (int b = 0; b < a; ++b) {
        const double noise =
            network == Network::smooth || network == Network::noisy_sites ? rng.uniform() : 0;
        const double base =
            network == Network::smooth ? 1
            : by_site ? between(site[static_cast<std::size_t>(a)], site[static_cast<std::size_t>(b)])
                      : between(a, b);
        (*matrix)(a, b) = (*matrix)(b, a) = base + noise;
      }
    }
  }
  return model;
}

inline Placement random_placement(Rng& rng, int stages, int replicas) {
  std::vector<int> devices(static_cast<std::size_t>(stages) * static_cast<std::size_t>(replicas));
  std::iota(devices.begin(), devices.end(), 0);
  rng.shuffle(std::span(devices));
  Placement placement(stages, replicas);
  for (int stage = 0; stage < stages; ++stage)
    for (int replica = 0; replica < replicas; ++replica)
      placement.at(stage, replica) = devices[static_cast<std::size_t>(stage * replicas + replica)];
  return placement;
}

}  // namespace dtfm
