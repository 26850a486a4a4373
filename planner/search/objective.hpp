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
/// them costs: 1; USD of all devices that are used, and to these are added those of what is sent; the number
/// of devices.
class PlanScore {
 public:
  /// Throws Error where prices are needed and no device has one, by itself or by its GPU.
  PlanScore(Objective objective, const Topology& topology);

  /// Of a second of one device's work; 0 for `iteration_time`; infinite where a price is needed and not
  /// known.
  double weight(int device) const { return weight_.empty() ? 0 : weight_[static_cast<std::size_t>(device)]; }
  double total_weight(const Plan& plan) const { return total_weight(pipeline_major(plan)); }
  double total_weight(const std::vector<int>& devices) const;
  double of(double iteration_s, double total_weight, double egress_usd) const {
    return (weight_.empty() ? iteration_s : iteration_s * total_weight) + (is_money_ ? egress_usd : 0);
  }
  /// Devices whose price is needed and not known: not to be used.
  std::vector<int> unpriced() const;

 private:
  bool is_money_;
  std::vector<double> weight_;  // of each device; empty for `iteration_time`
};

/// USD/h of a device, by the topology or the catalogue.
std::optional<DollarsPerHour> price_of(const Topology& topology, int device);
/// USD/h of all devices that a plan uses, if all have a price.
std::optional<DollarsPerHour> price_of(const Topology& topology, const Plan& plan);
/// USD of an iteration: of these devices for as long, and of what it sends; nothing where a price is not
/// known.
std::optional<double> usd_of(const Topology& topology, const Plan& plan, double iteration_s,
                             double egress_usd);

}  // namespace dtfm
