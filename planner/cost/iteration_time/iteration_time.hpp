// Analytical estimate of the iteration time of any plan, which the search minimizes. It shares only its
// inputs with the simulator; tests compare the two.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/plan/communication.hpp"
#include "core/plan/plan.hpp"
#include "planner/cost/iteration_time/gradient_sync_time.hpp"
#include "planner/cost/iteration_time/iteration_model.hpp"
#include "planner/cost/iteration_time/link_contention.hpp"
#include "planner/cost/iteration_time/pipeline_cost.hpp"

namespace dtfm::cost {

/// Times from the start of an iteration, in seconds.
struct IterationEstimate {
  double iteration_s = 0;
  double pipelines_s = 0;  // end of the last pipeline's computations
  /// End of the last synchronization; 0 if there is none. The all-gather of a sharded optimizer follows the
  /// update, but is counted as if it came before.
  double gradient_sync_end_s = 0;
  /// Durations, after pipelines_s and gradient_sync_end_s. The overhead includes the single numbers that the
  /// trainer reduces before and after the update.
  double update_s = 0, overhead_s = 0;
  /// Mean end of all pipelines and synchronizations. It also rewards improvements off the critical path.
  double mean_end_s = 0;
  double deficit_bytes = 0;        // total by which devices exceed their memory; 0: the plan fits
  double egress_usd = 0;           // per iteration
  std::vector<double> pipeline_s;  // by pipeline: end of its computations
  std::vector<double> steady_s;    // by pipeline: additional time of one more micro-batch
};

/// What every complete estimate of a plan has at least. `deficit_bytes` is exact.
struct EstimateBounds {
  double iteration_s = 0, mean_end_s = 0, egress_usd = 0, deficit_bytes = 0;
};

/// Estimates one plan:
///
/// 1. Compute the cost of every pipeline without the others (`pipeline_cost`). All start together.
/// 2. If links are shared, add the delay by messages of other pipelines (`LinkContention`).
/// 3. Add gradient synchronization (`gradient_sync_time`). Layers that lie in one stage of each pipeline are
///    synchronized together, once the last of these stages has their gradients; with overlap, every layer is
///    synchronized separately. Synchronizations of the same devices, or over the same link, follow each
///    other.
///    A sharded optimizer (zero1) only reduce-scatters, and all-gathers the parameters after step 5.
/// 4. With tied_embedding_sync, add the all-reduces between the stages of each pipeline that hold copies of
///    the same parameters.
/// 5. Add the optimizer step of every device, the reductions of single numbers and the iteration overhead.
///
/// If gradients are partitioned (zero2, zero3), sharded_training_time replaces the steps from 2 on.
///
/// Every stage must have as many devices as one of the model's degrees, and devices with known times. The
/// plan's execution must be that of the model's job, except for the flushes. Throws Error for a plan that the
/// schedule or the optimizer sharding cannot run, or with invalid tensor degrees (check_tensor_degrees).
IterationEstimate estimate_iteration(const IterationModel& model, const Plan& plan);

/// Estimates plans that differ little from each other. It caches the costs of the last two versions of each
/// pipeline and of each synchronization. So after a change of one pipeline, accepted or rejected, the costs
/// of the others are not computed again. The estimates equal those of `estimate_iteration`.
class IterationEstimator {
 public:
  /// `model` must outlive this.
  explicit IterationEstimator(const IterationModel& model);

  /// The returned estimates are valid until the next call.
  const IterationEstimate& estimate(const Plan& plan);
  /// Only the pipelines, without gradient synchronization: `pipelines_s`, `pipeline_s`, `steady_s`,
  /// `deficit_bytes`, and the egress of the pipelines.
  const IterationEstimate& estimate_pipelines(const Plan& plan);
  /// Only `deficit_bytes`.
  double deficit_bytes(const Plan& plan);
  /// Must remain true if any of the bounds grows.
  using ShouldPrune = std::function<bool(const EstimateBounds& bounds)>;
  /// Like `estimate`, but returns null as soon as `should_prune` is true, often before any synchronization is
  /// evaluated.
  const IterationEstimate* estimate_or_prune(const Plan& plan, const ShouldPrune& should_prune);
  /// The work of a pipeline of the last plan, which must not have been pruned. Its messages take as long as
  /// under contention.
  const PipelineWork& work(int pipeline) const;

 private:
  struct PipelineEntry {
    Pipeline pipeline;
    int replicas = 0, flush = -1;  // −1: empty
    std::shared_ptr<const PipelineCost> cost;
  };
  struct SyncEntry {
    std::vector<int> key;
    SyncTime time;    // of experts after that of other parameters
    SyncTime gather;  // of the parameters, if the optimizer is sharded
    std::vector<double>
        ends_s;                // [pipeline]: when its devices have the sums of other parameters than experts
    double compression_s = 0;  // to compress all shards of a device
    double decompression_s = 0;  // what it decompresses of them: its part, if gradients are partitioned
  };
  template <class Entry>
  struct Versions {
    std::array<Entry, 2> entries;
    std::size_t last = 0;
  };
  struct StageBusy {                                // by the synchronizations so far
    double compression_s = 0, decompression_s = 0;  // seconds for everything
    double compressed_s = 0, channels_s = 0, decompressed_s = 0, gathered_s = 0;  // ends
  };
  const PipelineCost& cost_of(std::size_t number, const Pipeline& pipeline, int replicas, int flush);
  std::shared_ptr<const PipelineCost> known_cost(const Pipeline& pipeline, int replicas, int flush);
  void add_syncs(const Plan& plan, std::span<Communication> parts, bool holds_first, SyncEntry& entry) const;
  const SyncEntry& sync_of(std::size_t number, const Plan& plan, const GradientBucket& bucket);
  void find_costs(const Plan& plan);
  void find_times();
  void find_buckets(const Plan& plan);
  EstimateBounds bounds_of_pipelines() const;
  void synchronize_bucket(std::size_t number, const Plan& plan);
  bool synchronize(const Plan& plan, const ShouldPrune& should_prune);
  double use_links(const SyncTime& time, double start_s);
  void synchronize_tied(const Plan& plan);
  void gather_parameters(const Plan& plan);
  void estimate_partitioned_gradients(const Plan& plan);
  double tied_sync_s(const Plan& plan, std::span<Communication> parts, double start_s);
  double synchronized_s(const Plan& plan, std::size_t pipeline, int virtual_stage, int layer) const;
  void set_totals();

  const IterationModel& model_;
  InFlightByDevice in_flight_;
  int replicas_ = 1;  // that partition the state of every layer of the last plan
  std::vector<Versions<PipelineEntry>> pipelines_;
  /// Without shared links, pipelines of interchangeable devices have the same cost: by set_interchange_key.
  std::map<std::vector<int>, std::shared_ptr<const PipelineCost>> known_costs_;
  std::vector<Versions<SyncEntry>> syncs_;  // by bucket
  std::vector<const PipelineCost*> costs_;
  LinkContention contention_;
  std::vector<const PipelineTime*> times_;
  std::vector<const StageLayers*> layers_;  // of virtual stages, by pipeline
  std::vector<GradientBucket> buckets_;
  std::vector<double> ready_s_;         // [bucket][pipeline]: when the stage has the gradients of the bucket
  std::vector<double> sync_ends_s_;     // by bucket; a lower bound, until it is synchronized
  std::vector<double> synchronized_s_;  // [bucket][pipeline]: when the stage has the sums
  double end_s_ = 0;                    // of all pipelines and buckets, with the optimizer steps
  double sum_of_ends_s_ = 0;            // without them
  std::vector<std::vector<StageBusy>> stages_;  // [pipeline][stage]
  std::vector<double> link_busy_s_;  // by id of the shared capacity: end of the synchronizations so far
  std::vector<int> busy_links_;      // ids of those that are not 0
  std::vector<int> key_;             // scratch
  IterationEstimate estimate_;
};

/// Relative error that 95 % of predicted peaks do not exceed: by Student's t and the root mean square of the
/// logarithms of predicted ÷ measured memory of 56 published runs (docs/validation.md).
inline constexpr double memory_error = 0.129;

/// Whether a plan fits a device. `near_limit`: needed memory and capacity differ by less than `memory_error`,
/// in either direction, so that the prediction does not decide.
enum class MemoryVerdict : unsigned char { fits, near_limit, exceeds };
std::string_view name_of(MemoryVerdict verdict);

/// Peak memory of a device under a plan.
struct DeviceMemory {
  int device = 0;
  double needed = 0, capacity = 0;  // bytes
  // Parts of `needed`: weights, gradients and optimizer state; the process. The rest are activations and
  // buffers.
  double state = 0, process = 0;

  /// Peak of the framework's allocator (max_memory_reserved of PyTorch).
  double reserved() const { return needed - process; }
  MemoryVerdict verdict() const;
  bool is_near_limit() const { return verdict() == MemoryVerdict::near_limit; }
};

/// Peak memory of all devices of the plan whose GPU is known, pipeline by pipeline.
std::vector<DeviceMemory> device_memory(const IterationModel& model, const Plan& plan);

/// Maximum number of micro-batches between two flushes for which every device has enough memory. 0 if not
/// even one fits, or if the schedule's memory does not grow with that number.
int max_fitting_flush(const IterationModel& model, const Plan& plan);

}  // namespace dtfm::cost
