#include "planner/search/objective.hpp"

#include <utility>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm {

std::optional<Objective> objective_named(std::string_view name) {
  if (name == "iteration-time") return Objective::iteration_time;
  if (name == "cost-per-token") return Objective::cost_per_token;
  if (name == "device-efficiency") return Objective::device_efficiency;
  return std::nullopt;
}

PlanScore::PlanScore(Objective objective, const Topology& topology, std::shared_ptr<const MovingCost> moving,
                     double horizon_s)
    : moving_(std::move(moving)), horizon_s_(horizon_s) {
  if (objective == Objective::iteration_time) return;
  for (int device = 0; device < topology.size(); ++device) {
    const auto price = price_of(topology, device);
    if (objective == Objective::cost_per_token && !price)
      throw Error("--objective",
                  fmt::format("cost-per-token needs the price of every device, and {} has none; "
                              "give it one in the topology: `price: 1.2 USD/h`",
                              topology.devices[at(device)].id));
    weight_.push_back(objective == Objective::cost_per_token ? price->value() : 1);
  }
}

/// Where nearly all of the horizon, or more, is for moving, finite all the same, so that less of it is
/// better: but longer than any other plan's.
double PlanScore::longer_by_moving(double moving_s) const {
  constexpr double longest = 1e12;
  if (moving_s <= 0) return 1;
  const double share = moving_s / horizon_s_;
  return share < 1 - 1 / longest ? 1 / (1 - share) : longest * (1 + share);
}

double PlanScore::total_weight(const Plan& plan) const {
  double sum = 0;
  for (const int device : pipeline_major(plan)) sum += weight(device);
  return sum;
}

std::optional<DollarsPerHour> price_of(const Topology& topology, int device) {
  const Device& it = topology.devices[at(device)];
  if (it.price) return it.price;
  return it.gpu < 0 ? std::nullopt : topology.gpus[at(it.gpu)].price;
}

std::optional<DollarsPerHour> price_of(const Topology& topology, const Plan& plan) {
  DollarsPerHour sum;
  for (const int device : pipeline_major(plan)) {
    const auto price = price_of(topology, device);
    if (!price) return std::nullopt;
    sum += *price;
  }
  return sum;
}

}  // namespace dtfm
