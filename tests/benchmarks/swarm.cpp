// Benchmarks the simulation of swarms: 400 peers for 32 hours on one core.
//
// usage: benchmark_swarm [HOURS [STAGES [relay|peer [shared|apart]]]]    (default: 32 4 peer shared)
//
// Writes a row of the table of scripts/benchmark.sh swarm to stdout, and the results of the swarm to stderr.
// shared: every device has an uplink and a downlink of 200 Mb/s; apart: every pair of devices has its own
// link.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <sys/resource.h>

#include "tests/support/swarms.hpp"

int main(int count, char** arguments) {
  using namespace dtfm;
  const double hours = count > 1 ? std::atof(arguments[1]) : 32;
  SwarmSetup setup;
  setup.stages = count > 2 ? std::atoi(arguments[2]) : 4;
  setup.transport = count > 3 && std::string(arguments[3]) == "relay" ? SwarmTransport::relay
                                                                      : SwarmTransport::peer_to_peer;
  setup.rebalance_s = 300;
  setup.delayed_update = true;
  const bool apart = count > 4 && std::string(arguments[4]) == "apart";
  const Link own = link_of(0.02, 25e6);
  const Topology topology =
      apart ? flat_topology(std::vector<int>(4, 100), own, own) : access_link_topology(4, 100, 0.02, 25e6);
  const Problem problem{topology, published_job(), {}};
  SwarmOptions options;
  options.seconds = hours * 3600;
  const SwarmReport report = simulate_swarm(problem, setup, {}, options);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double seconds =
      static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
  const double visits = static_cast<double>(report.visits);
  fmt::print("| {} | {} | {} | {} | {:.1f} million | {:.1f} s | {:.2f} µs | {:.2f} | {} MB |\n", hours,
             setup.stages, setup.transport == SwarmTransport::relay ? "relay" : "peer to peer",
             apart ? "apart" : "shared", visits / 1e6, seconds, 1e6 * seconds / visits,
             static_cast<double>(report.events_handled) / visits, usage.ru_maxrss / 1024);
  fmt::print(stderr, "{:.17g} of {:.2f} samples/s ({:.1f} %), {} steps, {} timeouts, {} moves\n",
             report.useful_samples_per_s, report.optimal_samples_per_s, 100 * report.share_of_optimum,
             report.steps.size(), report.timeouts, report.moves);
}
