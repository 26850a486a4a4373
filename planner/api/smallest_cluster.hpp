// The smallest part of a cluster on which a job fits in memory and is fast enough.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/api/devices/device_sets.hpp"
#include "planner/api/plan_request.hpp"

namespace dtfm::api {

struct PlanAnswer;

/// Devices on which plans were searched.
struct TriedCluster {
  std::vector<DeviceCount> used;       // by the best plan, as far as one was found
  int devices = 0;                     // that the plan uses, or that were offered
  std::optional<double> usd_per_hour;  // of these devices; empty if a price is unknown
  double iteration_s = 0;              // of the best plan, estimated; infinite if none fits in memory
  bool is_enough = false;
};

struct SmallestCluster {
  bool is_by_price = false;  // USD per hour of the devices; otherwise their number
  double value = 0;          // of the plan's devices
  double lower_bound = 0;    // proven minimum of `value`
  std::string bound_method;
  bool is_proven = false;  // the value equals the bound
  /// Every combination with a smaller value was searched, and none was enough.
  bool is_exhaustive = false;
  bool is_met = false;  // the plan, as simulated, is fast enough and fits in memory
  std::optional<double> max_iteration_s = {};
  std::vector<TriedCluster> tried;  // the cheapest ones first
};

/// The plan on the cheapest devices of the request's topology whose prices are all known, otherwise on the
/// fewest devices, among those that fit in memory and, if the question has a maximum, need no more time per
/// iteration.
///
/// Devices of one site with one GPU, speed and price are interchangeable; a cluster has the first of each
/// kind, host by host. If there are few combinations, all that are not excluded by a bound are searched, the
/// cheapest first. Otherwise the search begins with the cheapest of `device_sets` that are enough, and leaves
/// out devices of one kind after the other as long as the rest is enough. Every search is short
/// (search::min_evaluations) but the last one, on the chosen devices, which is that of the request. The plan
/// is then simulated; if it is not fast enough, the next larger cluster follows.
///
/// Bounds: the fewest devices whose memory suffices (search::min_fitting_devices), the least price of the
/// bytes of a plan (search::min_fitting_bytes) and, for jobs without open settings, cost::min_weighted_time ÷
/// the maximum time.
PlanAnswer plan_smallest_cluster(const PlanRequest& request);

}  // namespace dtfm::api
