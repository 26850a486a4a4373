// The least bandwidth between two sites with which a job is fast enough.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "planner/api/plan_request.hpp"

namespace dtfm::api {

struct PlanAnswer;

/// The best plan found if the links between two sites have `factor` times their bandwidth and capacity.
struct BandwidthRow {
  double factor = 1;
  double bits_per_s = 0;              // of the slowest single flow between the sites
  double iteration_s = 0;             // estimated
  std::optional<double> simulated_s;  // empty if the plan takes long to simulate, or is rejected
  double throughput = 0;              // relative to the estimate with links that are never the bottleneck
  bool is_enough = false;             // by the estimate
  Plan plan;
};

struct LeastBandwidth {
  std::pair<int, int> sites;         // the same: links inside the site
  double max_iteration_s = 0;        // what is enough
  bool is_by_throughput = false;     // `max_iteration_s` is unlimited_s ÷ the share of the question
  double unlimited_s = 0;            // estimate with links that are never the bottleneck
  std::vector<BandwidthRow> rows;    // ascending bandwidth
  std::optional<std::size_t> least;  // the first row from which all are enough; empty: no bandwidth is
};

/// The plan of the request for its topology, and a table over the bandwidth between two sites: those of the
/// question or, without, those between which the plan sends for longest. Uplinks, downlinks and latencies
/// stay as they are, and so may limit what bandwidth helps.
///
/// The bandwidth is halved and doubled from its value in the topology, and at last bisected to 5 %. For each,
/// a short search finds a plan. Every row has the best of all plans that were found for any bandwidth, so
/// that less bandwidth never seems better. Throws Error if the sites have no links that plans can use.
PlanAnswer plan_least_bandwidth(const PlanRequest& request);

}  // namespace dtfm::api
