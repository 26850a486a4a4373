// The value of a plan under an objective other than comm_cost.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "planner/core/objective.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"
#include "planner/cost/iteration_time/migration_cost.hpp"

namespace dtfm::search {

/// Every iteration trains the same tokens, so what is minimised is seconds of an iteration times what one of
/// them costs: 1; USD of all devices that are used, and to these are added those of what is sent; the number
/// of devices.
///
/// Where a plan goes on from another one, the devices are busy for so many seconds of `horizon_s` with moving
/// what they hold; what is left is for iterations. Seconds over the horizon ÷ iterations in it are
/// iteration · horizon ÷ (horizon − moving). USD for what is moved are shared by these iterations.
class PlanScore {
 public:
  /// Throws Error where prices are needed and no device has one, by itself or by its GPU.
  /// `moving`: what it takes to go on from the plan that runs; nothing where none does.
  PlanScore(Objective objective, const Topology& topology,
            std::shared_ptr<const cost::MigrationCost> migration = nullptr,
            double horizon_s = std::numeric_limits<double>::infinity());

  /// Of a second of one device's work; 0 for `iteration_time`; infinite where a price is needed and not
  /// known.
  double weight(int device) const { return weight_.empty() ? 0 : weight_[static_cast<std::size_t>(device)]; }
  double total_weight(const Plan& plan) const { return total_weight(pipeline_major(plan)); }
  double total_weight(const std::vector<int>& devices) const;
  double of(double iteration_s, double total_weight, double egress_usd,
            const cost::MigrationEstimate& migration = {}) const {
    const double effective_s = iteration_s * migration_slowdown(migration.seconds);
    return (weight_.empty() ? effective_s : effective_s * total_weight) +
           (is_money_ ? egress_usd + migration_usd(effective_s, migration) : 0);
  }
  /// Devices whose price is needed and not known: not to be used.
  std::vector<int> unpriced() const;
  const cost::MigrationCost* migration() const { return migration_.get(); }

  /// The same score, with a count of its own of what is priced by it; else copies count together.
  PlanScore with_own_count() const;
  /// A whole plan, or a move of one, has been priced. From any thread.
  void count() const { evaluated_->fetch_add(1, std::memory_order_relaxed); }
  long long evaluated() const { return evaluated_->load(std::memory_order_relaxed); }

 private:
  double migration_slowdown(double migration_s) const;
  /// The part of an iteration that takes `effective_s` of the horizon.
  double migration_usd(double effective_s, const cost::MigrationEstimate& migration) const;

  bool is_money_;
  std::shared_ptr<const cost::MigrationCost> migration_;
  double horizon_s_;
  std::vector<double> weight_;  // of each device; empty for `iteration_time`
  std::shared_ptr<std::atomic<long long>> evaluated_ = std::make_shared<std::atomic<long long>>(0);
};

/// USD/h of all devices that a plan uses, if all have a price.
std::optional<DollarsPerHour> price_of(const Topology& topology, const Plan& plan);
/// USD of an iteration: of these devices for as long, and of what it sends; nothing where a price is not
/// known.
std::optional<double> usd_of(const Topology& topology, const Plan& plan, double iteration_s,
                             double egress_usd);

}  // namespace dtfm::search
