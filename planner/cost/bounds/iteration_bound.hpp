// Lower bounds on the iteration time that no plan beats, whether estimated or simulated.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/stop.hpp"
#include "planner/cost/bounds/load_balance_bound.hpp"
#include "planner/cost/bounds/message_bounds.hpp"
#include "planner/cost/bounds/spanning_tree_bound.hpp"
#include "planner/cost/bounds/sync_traffic_bound.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

struct IterationBound {
  double value = 0;    // s
  std::string method;  // what the bound consists of, as text
  bool fits = true;    // false: out of memory even on the devices with the most memory
};

/// Bounds for all plans of one job on one topology, at any tensor degrees of the model: on any devices with
/// known layer times, with any layers for the stages of each pipeline (at least one each) and any split of
/// the job's micro-batches.
///
/// Each part is proven in the comment above it in the source. A message takes at least as long as over the
/// best pair of devices, or over the cheapest pairs that connect the required number of devices. Contention
/// is ignored.
class IterationBounds {
 public:
  /// `model` must outlive this object. Takes O(n² log n) time for n devices. Throws Error if too few devices
  /// have known layer times for a single stage, and WorkStopped.
  explicit IterationBounds(const IterationModel& model, StopFunction stop = {});

  /// Bound for all plans, whose pipelines may differ in depth; `stages` or `replicas` restrict the plans to
  /// this depth of all pipelines, or this number of them. fits = false and value = 0 if no plan fits. Once
  /// `stop` has returned true, the rest of the work is skipped, which can only lower the bound.
  IterationBound for_all_plans(std::optional<int> stages = {}, std::optional<int> replicas = {}) const;
  /// Smallest number of stages with which the job may fit in memory; 0 if there is none.
  int min_stages() const;

 private:
  /// Relative. Bisections end here, and the result is lowered by it, so rounding does not matter.
  static constexpr double bisection_precision = 1e-9;
  /// Jobs with more layers are bounded by perfectly balanced compute alone, because cutting them takes long.
  static constexpr int max_cut_layers = 512;

  struct Line {
    double fixed_s = 0, seconds_per_byte = 0;
  };
  /// What pipelines of one kind take at least.
  struct PipelineCosts {
    Line sync;                // after a device's last backward pass, as a function of its gradients' bytes
    double first_sync_s = 0;  // after all pipelines, for the first layer
    double hop_s = 0;         // of one of the hops, there and back, with latency
    double hop_busy_s = 0;    // occupancy of one of the hops, in each direction

    /// Synchronization of a device's gradients of these bytes, whatever the stage boundaries of other
    /// pipelines: its links have to carry all of its messages, the last of which arrives one latency later,
    /// and every synchronization takes two messages in sequence.
    double device_sync_s(double bytes) const {
      return sync.fixed_s + std::max(sync.fixed_s, bytes * sync.seconds_per_byte);
    }
  };
  struct DeviceGroup {
    int devices = 0;
    SyncTrafficBound traffic;       // of each of them
    double outside_s_per_byte = 0;  // until a device has exchanged bytes with devices of other groups
  };
  void find_links();
  void find_layers();
  void find_rates();
  DeviceKindTimes times_of(const StageCosts& costs, int kind) const;
  std::vector<double> max_of_stages(std::vector<double> of_devices,
                                    const std::vector<double>& of_shares) const;
  void find_memory();
  int max_stages() const;
  int max_replicas() const;
  bool may_fit(int stages, int replicas) const;
  int micro_batches(int stages, int replicas) const;
  double message_s(double messages, double bytes) const;
  double sync_s(int replicas, double bytes) const;
  double compressed_sync_s(int replicas, double bytes) const;
  double min_gradient_bytes(std::pair<int, int> layers) const;
  void find_sync();
  PipelineCosts costs_of(int replicas) const;
  bool stage_runs(std::pair<int, int> layers, int stage, int stages, int micro_batches, int rounds,
                  const PipelineCosts& costs, double limit_s) const;
  bool stage_fits(std::pair<int, int> layers, int in_flight) const;
  bool can_cut(int stages, int micro_batches, int rounds, int in_flight, const PipelineCosts& costs,
               double limit_s, bool& exceeds_memory) const;
  bool flushes_help(int stages, int micro_batches, const PipelineCosts& costs, double limit_s) const;
  bool pipeline_runs(int stages, int micro_batches, const PipelineCosts& costs, double limit_s) const;
  int max_micro_batches(int stages, const PipelineCosts& costs, double limit_s) const;
  void find_groups();
  std::vector<std::vector<double>> group_syncs(int replicas) const;
  std::vector<double> micro_batches_by_depth(const PipelineCosts& costs, int min_depth, int max_depth,
                                             std::optional<int> stages, double limit_s) const;
  double balanced_micro_batches(int stages, double sync_s, double limit_s) const;
  bool may_finish_in_groups(const std::vector<std::vector<double>>& syncs, int replicas,
                            std::optional<int> stages, double limit_s) const;
  double groups_bound_s(const std::vector<double>& least_s, std::optional<int> stages,
                        std::optional<int> replicas) const;
  bool may_finish(int computing, int replicas, std::optional<int> stages, double limit_s) const;
  double least_time_s(int computing, int replicas, std::optional<int> stages, double low, double least) const;
  double balanced_any_depth_s(int computing, int replicas) const;
  double slowest_device_s(int devices) const;
  double micro_batch_path_s(int stages, double min_hops_s) const;

  const IterationModel& model_;
  StopFunction stop_;
  std::vector<int> devices_;  // devices with known layer times
  int layers_;
  int tensor_;  // largest tensor degree
  int micro_batches_;
  std::vector<Line> best_links_;  // Pareto-optimal links: every pair of devices is no better than one of them
  /// Activations and gradients of a micro-batch over the smallest boundary: latency, and occupancy of links.
  SpanningTreeBound hop_, hop_busy_;
  /// The same in one direction, the better one of each pair.
  SpanningTreeBound one_way_, one_way_busy_;
  CollectiveMessages collective_messages_;
  SpanningTreeBound message_fixed_, message_per_byte_;
  SyncTrafficBound traffic_;
  double compression_s_ = 0;  // at the boundary where it is shortest
  LayerTimesBound layer_times_;
  BalancedWork balanced_;
  std::vector<double> rates_, rate_sums_;  // of the stages, largest first; sums of the first n
  double min_rate_ = 0;                    // smallest rate of a stage
  double gradient_bytes_ = 0, first_gradient_bytes_ = 0;
  double state_ = 0, per_micro_batch_ = 0, largest_layer_ = 0;  // bytes
  std::vector<double> memory_sums_;                             // bytes: most that n stages can have, by n
  std::vector<double> state_before_, gradients_before_;         // bytes of the first n layers, by n
  // By number of pipelines with micro-batches: after a device's last backward pass, as a function of the
  // bytes of its gradients; and after all pipelines, for the first layer.
  std::vector<Line> syncs_;
  std::vector<double> first_sync_s_;
  std::vector<DeviceGroup> groups_;  // sites, or hosts of a single site; empty if they make no difference
  PipelineCosts crossing_;           // the hops of pipelines on devices of several groups
};

}  // namespace dtfm::cost
