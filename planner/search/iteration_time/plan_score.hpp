// The value of a plan under an objective other than comm_cost.
#pragma once

#include <atomic>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "core/plan/objective.hpp"
#include "core/plan/plan.hpp"
#include "core/base/stop.hpp"
#include "core/cluster/topology.hpp"
#include "planner/cost/iteration_time/migration_cost.hpp"
#include "planner/search/iteration_time/churn_loss.hpp"

namespace dtfm::search {

/// Every iteration trains the same number of tokens, so the score is the iteration time multiplied by the
/// weight of a second (ObjectiveTraits): 1 (iteration time); USD of all devices used, to which egress is
/// added (cost per token); or the number of devices (device efficiency).
///
/// In a warm start, devices spend part of `horizon_s` on migration, and the rest on iterations. Seconds of
/// the horizon per iteration are iteration · horizon / (horizon − migration). The egress of the migration is
/// divided among these iterations.
///
/// If devices leave under scenarios, an iteration counts with its mean time under them (ChurnLoss).
class PlanScore {
 public:
  /// `migration`: from the running plan; null without a warm start. Throws Error if no device has a weight,
  /// for example because none has a price.
  PlanScore(Objective objective, const Topology& topology,
            std::shared_ptr<const cost::MigrationCost> migration = nullptr,
            double horizon_s = std::numeric_limits<double>::infinity());

  /// Weight of a second of one device; 0 for `iteration_time`, infinite if it is unknown.
  double weight(int device) const { return weight_.empty() ? 0 : weight_[static_cast<std::size_t>(device)]; }
  double total_weight(const Plan& plan) const { return total_weight(pipeline_major(plan)); }
  double total_weight(const std::vector<int>& devices) const;
  double of(double iteration_s, double total_weight, double egress_usd,
            const cost::MigrationEstimate& migration = {}, const ChurnSlowdown& churn = {}) const {
    const double effective_s = churn.of(iteration_s) * migration_slowdown(migration.seconds);
    return (weight_.empty() ? effective_s : effective_s * total_weight) +
           (is_money_ ? egress_usd + migration_usd(effective_s, migration) : 0);
  }
  /// Devices that must not be used because their weight, such as their price, is unknown.
  std::vector<int> unpriced() const;
  const cost::MigrationCost* migration() const { return migration_.get(); }
  ChurnSlowdown churn_of(const Plan& plan) const { return churn_ ? churn_->of(plan) : ChurnSlowdown(); }
  /// Whether the device leaves or joins under a scenario.
  bool is_affected_by_churn(int device) const { return churn_ && churn_->is_affected(device); }

  /// The same score with an evaluation counter of its own; plain copies share one.
  PlanScore with_own_count() const;
  PlanScore with_churn(std::shared_ptr<const ChurnLoss> churn) const;
  /// The same score, whose evaluations throw WorkStopped once `stop` has returned true.
  PlanScore with_stop(StopFunction stop) const;
  void throw_if_stopped() const { dtfm::throw_if_stopped(stop_); }
  /// Counts an evaluation of a plan or a move. Thread-safe.
  void count() const { evaluated_->fetch_add(1, std::memory_order_relaxed); }
  long long evaluated() const { return evaluated_->load(std::memory_order_relaxed); }

 private:
  double migration_slowdown(double migration_s) const;
  /// Part of the migration's egress of an iteration that takes `effective_s` of the horizon.
  double migration_usd(double effective_s, const cost::MigrationEstimate& migration) const;

  bool is_money_;
  std::shared_ptr<const cost::MigrationCost> migration_;
  double horizon_s_;
  std::shared_ptr<const ChurnLoss> churn_;  // null: no device leaves
  std::vector<double> weight_;              // by device; empty for `iteration_time`
  StopFunction stop_;
  std::shared_ptr<std::atomic<long long>> evaluated_ = std::make_shared<std::atomic<long long>>(0);
};

/// USD/h of all devices that a plan uses; nothing if a price is unknown.
std::optional<DollarsPerHour> price_of(const Topology& topology, const Plan& plan);
/// USD of an iteration: of the plan's devices and of its egress; nothing if a price is unknown.
std::optional<double> usd_of(const Topology& topology, const Plan& plan, double iteration_s,
                             double egress_usd);

}  // namespace dtfm::search
