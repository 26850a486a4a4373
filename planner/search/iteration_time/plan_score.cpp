#include "planner/search/iteration_time/plan_score.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm::search {

PlanScore::PlanScore(Objective objective, const Topology& topology,
                     std::shared_ptr<const cost::MigrationCost> migration, double horizon_s)
    : is_money_(traits(objective).is_money), migration_(std::move(migration)), horizon_s_(horizon_s) {
  const ObjectiveTraits& row = traits(objective);
  DTFM_ASSERT(row.is_of_time);
  if (!row.device_weight) return;
  for (int device = 0; device < topology.size(); ++device)
    weight_.push_back(row.device_weight(topology, device));
  if (static_cast<int>(unpriced().size()) == topology.size())
    throw Error("--objective", std::string(row.no_weight));
}

/// Factor by which migration slows iterations down over the horizon. If migration takes nearly all of the
/// horizon or more, the factor is larger than that of any other plan but finite, so that less migration is
/// still better. This includes a horizon of 0.
double PlanScore::migration_slowdown(double migration_s) const {
  constexpr double longest = 1e12;
  if (migration_s <= 0) return 1;
  const double left_s = horizon_s_ - migration_s;
  if (!std::isfinite(horizon_s_)) return 1;
  return left_s > horizon_s_ / longest ? horizon_s_ / left_s : longest * (1 + migration_s);
}

double PlanScore::migration_usd(double effective_s, const cost::MigrationEstimate& migration) const {
  return migration.usd > 0 ? migration.usd * effective_s / std::max(horizon_s_, migration.seconds) : 0;
}

std::vector<int> PlanScore::unpriced() const {
  std::vector<int> devices;
  for (std::size_t device = 0; device < weight_.size(); ++device)
    if (!std::isfinite(weight_[device])) devices.push_back(static_cast<int>(device));
  return devices;
}

PlanScore PlanScore::with_own_count() const {
  PlanScore result = *this;
  result.evaluated_ = std::make_shared<std::atomic<long long>>(0);
  return result;
}

PlanScore PlanScore::with_churn(std::shared_ptr<const ChurnLoss> churn) const {
  PlanScore result = *this;
  result.churn_ = std::move(churn);
  return result;
}

PlanScore PlanScore::with_stop(StopFunction stop) const {
  PlanScore result = *this;
  result.stop_ = std::move(stop);
  return result;
}

double PlanScore::total_weight(const std::vector<int>& devices) const {
  double sum = 0;
  for (const int device : devices) sum += weight(device);
  return sum;
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

}  // namespace dtfm::search
