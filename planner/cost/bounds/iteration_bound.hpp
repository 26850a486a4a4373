// How short an iteration can be at best: bounds that no plan beats, estimated or simulated.
#pragma once

#include <string>
#include <vector>

#include "planner/cost/bounds/load_balance_bound.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"
#include "planner/cost/bounds/spanning_tree_bound.hpp"

namespace dtfm::cost {

/// Whether every pipeline of a plan is cut before the same layers.
enum class Cuts { any, common };

struct IterationBound {
  double value = 0;    // s
  std::string method;  // what the bound is made of
  bool fits = true;    // else the stages do not fit memory, not even that of the largest devices
};

/// Bounds for all plans of one job on one topology, at any tensor degrees of the model: `replicas` pipelines
/// of `stages` stages each, any devices whose times are known, any layers for the stages of each pipeline (at
/// least one), any shares of the job's micro-batches.
///
/// Why they hold is said at the parts in the source. Messages take no less than over the best pair of
/// devices, or over the pairs that connect as many devices best; what links carry together is not counted.
class IterationBounds {
 public:
  /// `model` must outlive this. Takes time in n² for n devices. Throws Error where those whose times are
  /// known are too few for a stage.
  explicit IterationBounds(const IterationModel& model);

  /// There are devices whose times are known for stages · replicas stages, and layers for all stages.
  IterationBound for_shape(int stages, int replicas, Cuts cuts = Cuts::any) const;
  /// The least of all shapes that may fit memory; fits = false where none does.
  IterationBound for_all_shapes(Cuts cuts = Cuts::any) const;
  /// The smallest number of stages with which the job may fit memory; 0: none.
  int min_stages() const;

 private:
  struct Line {
    double fixed_s = 0, seconds_per_byte = 0;
  };
  struct Part {
    double value = 0;
    const char* method = "";
  };
  void find_links();
  void find_layers();
  void find_rates();
  DeviceKindTimes times_of(const StageCosts& costs, int kind) const;
  std::vector<double> max_of_stages(std::vector<double> of_devices,
                                     const std::vector<double>& of_shares) const;
  void find_memory();
  int max_stages() const;
  int max_replicas(int stages) const;
  bool may_fit(int stages, int replicas) const;
  int micro_batches(int stages, int replicas) const;
  double message_s(double messages, double bytes) const;
  double sync_s(int replicas, double bytes) const;
  double sync_s_per_byte(int replicas) const;
  double compressed_sync_s(int replicas, double bytes) const;
  double min_gradient_bytes(std::pair<int, int> layers) const;
  double stage_s(const WorkBound& work_bound, double balanced, int stages) const;
  double hops_s(int stages) const;
  double micro_batch_path_s(int stages) const;
  double fill_time_s(int stages, int micro_batches) const;
  double total_fill_s(int stages, int pipelines) const;
  Part pipelines(int stages, int replicas) const;
  Part slowest_pipeline(int stages, int micro_batches) const;
  double cut_pipelines_s(int stages, int replicas, int cut) const;
  Part partition_and_sync_bound(int stages, int replicas, double computed_s) const;
  Part work_part(int stages, int replicas, Cuts cuts) const;

  const IterationModel& model_;
  std::vector<int> devices_;             // whose times are known
  int layers_, tensor_, micro_batches_;  // tensor: the most devices of a stage
  std::vector<Line> best_links_;         // no pair of devices is better than all of these
  SpanningTreeBound hop_, hop_busy_;  // a micro-batch's activations and gradients, of the smallest boundary
  SpanningTreeBound message_fixed_, message_per_byte_;
  double compression_s_ = 0;  // of the smallest boundary
  LayerTimesBound layer_times_;
  BalancedWork balanced_;
  std::vector<double> rates_, rate_sums_;  // of the best stages, and of so many of them
  double min_rate_ = 0;                  // of a stage
  double gradient_bytes_ = 0, first_gradient_bytes_ = 0, largest_gradient_bytes_ = 0;
  double state_ = 0, per_micro_batch_ = 0, largest_layer_ = 0;  // bytes
  std::vector<double> memory_sums_;                            // of so many stages on the largest devices
};

}  // namespace dtfm::cost
