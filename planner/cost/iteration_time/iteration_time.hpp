// Closed-form estimate of the iteration time of any plan, which the search minimizes. It shares only its
// inputs with the simulator, which checks it.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/compression.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "planner/cost/iteration_time/gradient_sync_time.hpp"
#include "planner/cost/iteration_time/in_flight.hpp"
#include "planner/cost/iteration_time/network_cost.hpp"
#include "planner/cost/iteration_time/pipeline_time.hpp"
#include "planner/cost/iteration_time/stage_cost.hpp"

namespace dtfm::cost {

/// Data shared by all estimates of one job on one topology. Immutable; `problem` must outlive it.
struct IterationModel {
  /// For stages of `tensor` devices.
  explicit IterationModel(const Problem& problem, int tensor = 1);
  /// For stages of these tensor degrees (distinct, ascending). `network` may come from another model of the
  /// same topology and calibration.
  IterationModel(const Problem& problem, const std::vector<int>& tensors,
                 std::shared_ptr<const NetworkCost> network);
  IterationModel(const IterationModel&) = delete;
  IterationModel& operator=(const IterationModel&) = delete;

  /// Costs of a stage with this number of devices, which must be one of the degrees.
  const StageCosts& stages_of(std::size_t devices) const { return by_degree[number_of_degree[devices]]; }
  /// Largest degree below this one; 0 if there is none.
  std::size_t degree_below(std::size_t degree) const;
  bool has_degree(std::size_t degree) const;
  /// Costs of one part of a message or a gradient that consists of `parts` (planner/core/shards.hpp).
  const StageCosts& parts_of(int parts) const { return stages_of(static_cast<std::size_t>(parts)); }
  bool is_compressed(int from, int to) const {
    return dtfm::is_compressed(problem.topology, problem.job.execution.compression, from, to);
  }
  /// Bytes of one of `parts` parts of a message at the boundary before `layer`.
  double boundary_bytes(int from, int to, int parts, int layer) const {
    return parts_of(parts).boundary_bytes(layer, is_compressed(from, to));
  }
  /// Fraction of the messages between stages `own` and `other` in one direction that is compressed, for
  /// the device of `own` with the largest fraction.
  enum class Direction { sent, received };
  double compressed_share(const std::vector<int>& own, const std::vector<int>& other,
                          Direction direction) const;
  /// Why the compute times of a device are unknown at some degree; empty if all are known.
  const std::string& unknown(int device) const;

  const Problem& problem;
  std::vector<StageCosts> by_degree;
  std::vector<std::size_t> number_of_degree;  // index into by_degree, by degree
  const StageCosts& stages;                   // of the largest degree
  std::shared_ptr<const NetworkCost> shared_network;
  const NetworkCost& network;
  Schedule schedule;
  GradientSync sync;
  int chunks;  // stages per device
  int flush;   // micro-batches between flushes; 0: one flush per iteration
};

/// Times from the start of an iteration, in seconds.
struct IterationEstimate {
  double iteration_s = 0;
  double pipelines_s = 0;               // end of the last pipeline's computations
  double gradient_sync_end_s = 0;       // end of the last synchronization; 0 if there is none
  double update_s = 0, overhead_s = 0;  // durations, after the later of both ends
  std::vector<double> pipeline_s;       // by pipeline: end of its computations
  std::vector<double> steady_s;         // by pipeline: additional time of one more micro-batch
};

/// Peak memory of a device under a plan.
struct DeviceMemory {
  int device = 0;
  double needed = 0, capacity = 0;  // bytes
};

/// Estimates one plan, and after a change recomputes only the parts that it affects.
///
/// Every pipeline is timed by `pipeline_time`; all start together. If links are shared, the long-run time of
/// a message is at least that of all bytes that cross the link in an iteration, divided by the micro-batches
/// of the pipeline. Gradients of layers that the same devices hold are synchronized together
/// (`GradientSyncTime`), once the last of these devices has them; links that several synchronizations share
/// carry their bytes in the order of their starts. With overlap, synchronization delays the last gradients
/// that a stage sends to the previous one. Finally every device runs its optimizer step, and the overhead of
/// the iteration is added.
class IterationTimer {
 public:
  /// Every stage must have as many devices as one of the model's degrees, and devices with known times. The
  /// plan's execution must be that of the model's job, except for the flushes. `model` must outlive this.
  /// Throws Error for a plan that the schedule cannot run, or with invalid tensor degrees
  /// (check_tensor_degrees).
  IterationTimer(const IterationModel& model, Plan plan);

  const Plan& plan() const { return plan_; }
  const IterationModel& model() const { return model_; }
  void set_devices(int pipeline, int stage, const std::vector<int>& devices);
  /// The stages of a pipeline must be contiguous again before the next estimate.
  void set_layers(int pipeline, int stage, std::pair<int, int> layers);
  void set_micro_batches(int pipeline, int micro_batches);
  /// Micro-batches between flushes, for all pipelines, instead of the plan's; 0: one flush per iteration.
  void set_flush(int micro_batches);
  int flush() const { return plan_.execution.flush.value_or(0); }
  /// Maximum number of micro-batches between two flushes for which every device has enough memory. 0 if not
  /// even one fits, or if the schedule's memory does not grow with that number.
  int max_fitting_flush();

  double iteration_s();
  /// Mean end of all pipelines and synchronizations. It also rewards improvements off the critical path.
  double mean_end_s();
  IterationEstimate estimate();
  /// Times of a pipeline, without delays by synchronization.
  const PipelineTime& pipeline(int pipeline);
  /// The work that `pipeline` is the time of.
  const PipelineWork& work(int pipeline);
  /// Egress in USD per iteration.
  double egress_usd();
  /// Bytes by which devices exceed their memory, in total; 0: the plan fits.
  double deficit_bytes();
  /// Peak memory of all devices whose GPU is known, pipeline by pipeline.
  std::vector<DeviceMemory> memory();

 private:
  struct Load {  // bytes over a shared capacity
    int id = 0;
    double forward = 0, backward = 0;
    int messages = 0;  // per micro-batch
  };
  // Messages over one boundary in one direction on a shared capacity; bytes per iteration.
  struct LinkContention {
    int id = 0;
    double own = 0;
    // Bytes of this pipeline's messages with which they always contend, including themselves.
    double own_pipeline_bytes = 0;
    double synchronized_bytes = 0;           // of other pipelines' messages with which they always contend
    double synchronized_pipeline_bytes = 0;  // own_pipeline_bytes of those
  };
  struct FirstMessage {  // first message over a boundary, on a shared capacity
    int id = 0;
    double sent_s = 0, duration_s = 0;  // without contention
    double pace_s = 0;                  // PipelineState::pace_s
    int messages = 0;
    std::size_t pipeline_state = 0, contention = 0;
    friend auto operator<=>(const FirstMessage&, const FirstMessage&) = default;
  };
  struct Codec {            // busiest device of a stage
    double busy_s = 0;      // end of its last compression
    double waiting_s = 0;   // compression that follows the next layer's computation (overlap)
    double deferred_s = 0;  // delay of its later computations
    std::vector<std::size_t> to_decompress;  // indices of buckets
  };
  struct PipelineState {
    bool is_fresh = false, are_layers_fresh = false, is_timed = false;
    PipelineWork work;
    PipelineTime time;
    std::vector<std::pair<int, int>> layers;  // by virtual stage
    std::vector<double> update_s;             // by virtual stage: of its device, over all its chunks
    std::vector<double> needed;               // by stage: peak memory in bytes
    double deficit_bytes = 0;
    double egress_usd = 0;           // per iteration, without synchronization
    std::vector<Load> load;          // per iteration
    std::vector<SharedPath> paths;   // of forward and backward messages: by boundary, then part
    std::vector<double> path_bytes;  // of each, per iteration
    std::vector<std::vector<LinkContention>> contentions;  // by boundary, forward and backward
    std::vector<double> first_sent_s;     // without contention, by boundary, forward and backward
    double pace_s = 0;                    // of all micro-batches between two flushes, on the busiest device
    std::vector<std::size_t> first_path;  // index into paths by boundary, then their number
    // By virtual stage: delay of the end of its last backward by synchronization.
    std::vector<double> sync_delays_s;
    // By virtual stage: part of its backward that compresses what it sends.
    std::vector<double> compressing_sent_s;
    std::vector<Codec> codecs;  // by stage
  };
  struct ChannelTransfer {
    GradientSyncTime::Transfer base;
    int channel = 0;  // among the channels between the two stages
  };
  struct GradientBucket {  // consecutive layers that the same devices hold
    bool is_fresh = false;
    std::pair<int, int> layers;
    std::vector<int> stage;              // by pipeline: virtual stage
    int parts = 1;                       // shards of its gradients
    int max_parts_per_device = 1;        // held by one device
    double compression_s = 0;            // of one compressed part; 0: none is compressed
    double start_s = 0, end_s = 0;       // of its messages
    std::vector<double> compress_s;      // by pipeline: for all parts that a device holds
    std::vector<double> decompressed_s;  // by pipeline: end of decompression
    std::vector<double> ends_s;          // by pipeline: seconds after the start
    double last_s = 0;                   // maximum of ends_s
    double egress_usd = 0;
    std::vector<ChannelTransfer> transfers;     // between pipelines, if buckets share channels
    std::vector<std::pair<int, double>> load;   // bytes by capacity id
    std::vector<std::pair<int, double>> first;  // concurrent messages of the first phase by capacity id
  };
  struct Channel {  // from a stage to one of another pipeline
    int stage = -1;
    unsigned sync_round = 0;  // entries of earlier rounds are stale
    double busy_s = 0;        // busy until
  };

  bool is_shared() const { return model_.network.shared_count() > 0; }
  const std::vector<int>& devices_of(int pipeline, int virtual_stage) const;
  const StageCosts& costs_of(const std::vector<int>& devices) const {
    return model_.stages_of(devices.size());
  }
  double largest_part(const std::vector<int>& from, const std::vector<int>& to, int layer) const;
  void refresh();
  void time_pipelines();
  // Pipelines.
  static double computed_s(const PipelineState& pipeline_state);
  void refresh_layers(int pipeline);
  void refresh_needs(int pipeline);
  void refresh_work(int pipeline);
  void refresh_updates(int pipeline);
  void refresh_memory(int pipeline);
  HopTime hop(const std::vector<int>& from, const std::vector<int>& to, int layer) const;
  double concurrent_parts_s(const std::vector<int>& from, const std::vector<int>& to, int layer) const;
  double all_reduce_s(const std::vector<int>& devices, std::pair<int, int> layers, bool backward) const;
  // Egress and contention of pipelines (iteration_link_contention.cpp, iteration_synchronized_pipelines.cpp).
  void refresh_egress(int pipeline);
  void refresh_load(int pipeline);
  void refresh_opposite_direction(int pipeline);
  double contended_occupancy_s(const std::vector<int>& from, const std::vector<int>& to, int layer,
                               int other_from, int other_to, int pipeline) const;
  void share_links();
  void share_links_of(int pipeline);
  void refresh_first_messages(PipelineState& pipeline_state) const;
  void apply_synchronized_contention();
  void apply_synchronized_contention(std::size_t boundary, bool forward);
  void apply_random_contention(PipelineState& pipeline_state) const;
  int in_flight(const PipelineState& pipeline_state) const;
  void refresh_contentions(PipelineState& pipeline_state) const;
  // Gradient synchronization (iteration_gradient_sync.cpp).
  void find_buckets();
  bool are_buckets_disjoint() const;
  GradientSyncTime::TransferDetail needed_transfers() const;
  bool have_same_devices(const std::vector<int>& stages, const std::vector<int>& others) const;
  void refresh_syncs();
  void refresh_sync(GradientBucket& bucket);
  void count_parts(GradientBucket& bucket);
  std::vector<int> holders(const GradientBucket& bucket, int part) const;
  void sync_part(GradientBucket& bucket, int part, bool with_first);
  double part_delay_s(const GradientBucket& bucket, int part);
  int channel_of(const GradientBucket& bucket, const GradientSyncTime::Transfer& transfer, int part) const;
  void share_links_of_parts(GradientBucket& bucket);
  void start_sync(std::size_t bucket);
  void serialize_transfers(GradientBucket& bucket);
  int stage_of(const GradientBucket& bucket, int pipeline) const;
  Channel& channel(const GradientBucket& bucket, const ChannelTransfer& transfer);
  void delay_by_sync(std::size_t bucket);
  static double remaining_send_s(const PipelineState& pipeline_state, std::size_t stage);
  double sync_delay_s(int pipeline, std::size_t first_bucket) const;
  void share_links_of_syncs();
  double ready_s(int pipeline, int stage, int layer) const;
  double sync_end_s(const GradientBucket& bucket, int pipeline) const;
  // Gradient compression (iteration_compression.cpp).
  void count_compressed(GradientBucket& bucket);
  static void reset_codecs(PipelineState& pipeline_state, std::size_t stages);
  Codec& codec_of(int pipeline, int virtual_stage);
  double compressed_s(int pipeline, std::size_t bucket);
  double compressed_after_s(int pipeline, const GradientBucket& bucket);
  double compressed_in_backward_s(int pipeline, const GradientBucket& bucket);
  double deferred_s(int pipeline, int stage);
  double decompress_before(int pipeline, int stage, double now_s);
  void decompress_remaining();
  void finish();

  const IterationModel& model_;
  Plan plan_;
  bool is_fresh_ = false, are_buckets_known_ = false, are_buckets_disjoint_ = true;
  std::vector<PipelineState> pipeline_states_;
  std::vector<GradientBucket> buckets_;  // in the order of the layers
  InFlightByDevice held_;
  /// [pipeline][stage][other pipeline][kept stage of it][channel]; empty if unused. Without chunks, buckets
  /// go from the last stages to the first, and what was sent to later ones no longer matters, so one stage is
  /// kept. With chunks they wrap around, and all stages are kept.
  std::vector<std::vector<Channel>> channels_;
  std::size_t kept_stages_ = 1;
  unsigned sync_round_ = 0;
  std::vector<double> forward_load_, backward_load_;  // bytes per iteration by capacity id
  std::vector<int> concurrent_messages_;              // maximum number of messages at a time, by capacity id
  std::vector<FirstMessage> first_messages_;          // scratch: of one boundary
  std::vector<int> link_numbers_;                     // scratch: of one pipeline, in the order of its hops
  std::vector<double> busy_s_;                        // by capacity id: end of the synchronizations so far
  std::vector<std::size_t> order_;                    // scratch: buckets by start
  GradientSyncTime sync_time_;
  // Scratch for the parts of one bucket: when each channel between stages is free, bytes of each part,
  // whether it is compressed, and begin and end of the phases of the current one.
  std::vector<double> part_busy_s_, part_bytes_;
  std::vector<bool> part_compressed_;
  std::vector<std::pair<double, double>> part_phases_;
  IterationEstimate estimate_;
  double mean_end_s_ = 0;
};

/// Estimates one plan. Throws Error like the constructor of IterationTimer.
IterationEstimate estimate_iteration(const IterationModel& model, const Plan& plan);

}  // namespace dtfm::cost
