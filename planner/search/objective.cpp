#include "planner/search/objective.hpp"

#include <cmath>
#include <limits>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm {

namespace {

constexpr double seconds_per_hour = 3600;

}  // namespace

std::optional<Objective> objective_named(std::string_view name) {
  if (name == "iteration-time") return Objective::iteration_time;
  if (name == "cost-per-token") return Objective::cost_per_token;
  if (name == "device-efficiency") return Objective::device_efficiency;
  return std::nullopt;
}

PlanScore::PlanScore(Objective objective, const Topology& topology)
    : is_money_(objective == Objective::cost_per_token) {
  if (objective == Objective::iteration_time) return;
  for (int device = 0; device < topology.size(); ++device) {
    const auto price = price_of(topology, device);
    const double usd_per_s =
        price ? price->value() / seconds_per_hour : std::numeric_limits<double>::infinity();
    weight_.push_back(is_money_ ? usd_per_s : 1);
  }
  if (static_cast<int>(unpriced().size()) == topology.size())
    throw Error("--objective",
                "cost-per-token needs prices, and no device has one; give them some in the "
                "topology: `price: 1.2 USD/h`");
}

std::vector<int> PlanScore::unpriced() const {
  std::vector<int> devices;
  for (std::size_t device = 0; device < weight_.size(); ++device)
    if (!std::isfinite(weight_[device])) devices.push_back(static_cast<int>(device));
  return devices;
}

double PlanScore::total_weight(const std::vector<int>& devices) const {
  double sum = 0;
  for (const int device : devices) sum += weight(device);
  return sum;
}

std::optional<DollarsPerHour> price_of(const Topology& topology, int device) {
  const Device& it = topology.devices[at(device)];
  if (it.price) return it.price;
  return it.gpu < 0 ? std::nullopt : topology.gpus[at(it.gpu)].price;
}

std::optional<double> usd_of(const Topology& topology, const Plan& plan, double iteration_s,
                             double egress_usd) {
  const auto price = price_of(topology, plan);
  if (!price) return std::nullopt;
  return price->value() / seconds_per_hour * iteration_s + egress_usd;
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
