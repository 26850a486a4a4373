// What is minimised, beside comm-cost.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"

namespace dtfm {

enum class Objective { iteration_time, cost_per_token, device_efficiency };
/// Nothing for another name.
std::optional<Objective> objective_named(std::string_view name);

/// Every iteration trains the same tokens, so what is minimised is seconds of an iteration times what one of
/// them costs: 1; dollars of all devices that are used; their number.
class PlanScore {
 public:
  /// Throws Error where a device has no price, and neither has its GPU, if prices are needed.
  PlanScore(Objective objective, const Topology& topology);

  /// Of a second of one device's work; 0 for `iteration_time`.
  double weight(int device) const { return weight_.empty() ? 0 : weight_[static_cast<std::size_t>(device)]; }
  double total_weight(const Plan& plan) const;
  double of(double iteration_s, double total_weight) const {
    return weight_.empty() ? iteration_s : iteration_s * total_weight;
  }

 private:
  std::vector<double> weight_;  // of each device; empty for `iteration_time`
};

/// USD/h of a device, by the topology or the catalogue.
std::optional<DollarsPerHour> price_of(const Topology& topology, int device);
/// USD/h of all devices that a plan uses, if all have a price.
std::optional<DollarsPerHour> price_of(const Topology& topology, const Plan& plan);

}  // namespace dtfm
