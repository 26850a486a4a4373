// The time of an iteration by closed formulas, for any plan: what the search minimises and the simulator
// judges. Nothing here is shared with the simulator but the inputs.
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
#include "planner/cost/iteration_time/network_cost.hpp"
#include "planner/cost/iteration_time/pipeline_time.hpp"
#include "planner/cost/iteration_time/schedule_steps.hpp"
#include "planner/cost/iteration_time/stage_cost.hpp"

namespace dtfm::cost {

/// What estimates of one job on one topology have in common. Does not change; `problem` must outlive it.
struct IterationModel {
  /// Of stages of `tensor` devices.
  explicit IterationModel(const Problem& problem, int tensor = 1);
  /// Of stages of these tensor degrees (each once, ascending), with the network of a model of the same
  /// topology and calibration.
  IterationModel(const Problem& problem, const std::vector<int>& tensors,
                 std::shared_ptr<const NetworkCost> network);
  IterationModel(const IterationModel&) = delete;
  IterationModel& operator=(const IterationModel&) = delete;

  /// Of a stage of so many devices.
  const StageCosts& stages_of(std::size_t devices) const { return by_degree[number_of_degree[devices]]; }
  /// The largest degree below this one; 0: none.
  std::size_t degree_below(std::size_t degree) const;
  bool has_degree(std::size_t degree) const;
  /// Of a message or a gradient in so many parts (planner/core/shards.hpp), one of them.
  const StageCosts& parts_of(int parts) const { return stages_of(static_cast<std::size_t>(parts)); }
  /// Does a message of a pipeline go compressed?
  bool is_compressed(int from, int to) const {
    return dtfm::is_compressed(problem.topology, problem.job.compression, from, to);
  }
  /// Of a message over the boundary before `layer`, one of so many parts.
  double boundary_bytes(int from, int to, int parts, int layer) const {
    return parts_of(parts).boundary_bytes(layer, is_compressed(from, to));
  }
  /// Of the messages of stage `own` to the stage `other`, or from there: how many are compressed ÷ all, of
  /// the device with most.
  enum class Direction { sent, received };
  double compressed_share(const std::vector<int>& own, const std::vector<int>& other,
                          Direction direction) const;
  /// Is there a degree at which nothing is known of a device? The reason, else empty.
  const std::string& unknown(int device) const;

  const Problem& problem;
  std::vector<StageCosts> by_degree;
  std::vector<std::size_t> number_of_degree;  // of each degree
  const StageCosts& stages;                   // at the largest degree
  std::shared_ptr<const NetworkCost> shared_network;
  const NetworkCost& network;
  Schedule schedule;
  GradientSync sync;
  int chunks;  // stages of a device
  int flush;   // 0: once an iteration
};

/// From the start of an iteration, in seconds.
struct IterationEstimate {
  double iteration_s = 0;
  double pipelines_s = 0;               // when the last pipeline has computed
  double gradient_sync_end_s = 0;       // when the last gradients are exchanged; 0 where nothing is
  double update_s = 0, overhead_s = 0;  // what comes after the later of both
  std::vector<double> pipeline_s;       // each pipeline's computations
  std::vector<double> steady_s;         // of each pipeline, a micro-batch more
};

/// What a device holds of its stage at most.
struct DeviceMemory {
  int device = 0;
  double needed = 0, capacity = 0;  // bytes
};

/// One plan and its estimate, brought up to date after changes where they are felt.
///
/// Every pipeline by `pipeline_time`, all of them in step: where messages share a capacity, a message takes,
/// in the long run, no less than all bytes that pass it in an iteration, divided by the pipeline's
/// micro-batches. The gradients of layers that the same devices hold are exchanged together
/// (`GradientSyncTime`), when the last of these has them; what exchanges share carries all their bytes in the
/// order in which they begin. With overlap they hold up the last gradients that go to the stage before. Then
/// each device makes its update, and the iteration's overhead passes.
class IterationTimer {
 public:
  /// Stages have as many devices as degrees of the model say, whose times are known. `model` must outlive
  /// this. Throws Error for a plan that the schedule cannot run, or as check_tensor_degrees does.
  IterationTimer(const IterationModel& model, Plan plan);

  const Plan& plan() const { return plan_; }
  const IterationModel& model() const { return model_; }
  void set_devices(int pipeline, int stage, const std::vector<int>& devices);
  /// Stages of a pipeline have to follow each other again when its time is asked for.
  void set_layers(int pipeline, int stage, std::pair<int, int> layers);
  void set_micro_batches(int pipeline, int micro_batches);
  /// Of all pipelines, in place of the job's; 0: once an iteration.
  void set_flush(int micro_batches);
  int flush() const { return flush_; }
  /// The most micro-batches between two drains with which every device's memory is large enough; 0 where not
  /// even one is, or the schedule does not hold more the longer it runs.
  int max_fitting_flush();

  double iteration_s();
  /// The mean of all ends of pipelines and exchanges: what improves though the slowest does not.
  double mean_end_s();
  IterationEstimate estimate();
  /// Seconds of a pipeline's computations and of a micro-batch more, without what exchanges hold up.
  const PipelineTime& pipeline(int pipeline);
  /// What that is the time of.
  const PipelineWork& work(int pipeline);
  /// USD an iteration for what is sent over priced links.
  double egress_usd();
  /// Bytes that devices lack, all together; 0: the plan fits.
  double deficit_bytes();
  /// Of devices whose GPU is known, pipeline by pipeline.
  std::vector<DeviceMemory> memory();

 private:
  struct Load {  // bytes over a shared capacity
    int id = 0;
    double forward = 0, backward = 0;
    int messages = 0;  // of a micro-batch
  };
  struct LinkContention {  // of the messages over a boundary, one way, on a shared capacity; bytes of an
                           // iteration
    int id = 0;
    double own = 0;
    double own_pipeline_bytes =
        0;  // of the pipeline's messages, theirs included, those that do not meet them by chance
    double synchronized_bytes = 0;           // of other pipelines, those that always meet them
    double synchronized_pipeline_bytes = 0;  // and the company of these
  };
  struct FirstMessage {  // of the first message over a boundary, on a shared capacity
    int id = 0;
    double sent_s = 0, duration_s = 0;  // alone
    double pace_s = 0;                  // Lane::pace_s
    int messages = 0;
    std::size_t pipeline_state = 0, contention = 0;
    friend auto operator<=>(const FirstMessage&, const FirstMessage&) = default;
  };
  struct Codec {                             // the busiest device of a stage
    double busy_s = 0;                       // until when it has compressed
    double waiting_s = 0;                    // of compressing that comes after the next layer (overlap)
    double deferred_s = 0;                   // what it computes after this comes so much later
    std::vector<std::size_t> to_decompress;  // segments
  };
  struct PipelineState {  // a pipeline
    bool is_fresh = false, are_layers_fresh = false, is_timed = false;
    PipelineWork work;
    PipelineTime time;
    std::vector<std::pair<int, int>> layers;  // of its computed stages
    std::vector<double> update_s;             // by computed stage: of its devices, with all they compute
    std::vector<double> needed;               // by stage: bytes
    double deficit_bytes = 0;                 // bytes
    double egress_usd = 0;                    // of an iteration, but for exchanges
    std::vector<Load> load;                   // of an iteration
    std::vector<SharedPath> paths;            // of messages there, back: by boundary, then part
    std::vector<double> path_bytes;           // of each, in an iteration
    std::vector<std::vector<LinkContention>> contentions;  // by boundary, there and back
    std::vector<double> first_sent_s;                      // alone, by boundary, there and back
    double pace_s = 0;                    // of all micro-batches between two drains, by the busiest device
    std::vector<std::size_t> first_path;  // by boundary; and all of them
    std::vector<double>
        sync_delays_s;  // by computed stage: what exchanges add to the end of its last backward
    std::vector<double> compressing_sent_s;  // by computed stage: in its backward, of what it sends
    std::vector<Codec> codecs;               // by stage
  };
  struct ChannelTransfer {
    GradientSyncTime::Transfer base;
    int channel = 0;  // of those between the two stages
  };
  struct GradientBucket {  // layers that the same devices hold
    bool is_fresh = false;
    std::pair<int, int> layers;
    std::vector<int> stage;              // of each pipeline: the computed stage
    int parts = 1;                       // of its gradients
    int max_parts_per_device = 1;        // of them, by one device
    double compression_s = 0;            // of a part that is compressed, where one is
    double start_s = 0, end_s = 0;       // of its messages
    std::vector<double> compress_s;      // by pipeline: of all parts that a device holds
    std::vector<double> decompressed_s;  // by pipeline: when its devices have expanded what came
    std::vector<double> ends_s;          // after its start, by pipeline
    double last_s = 0;                   // of them
    double egress_usd = 0;
    std::vector<ChannelTransfer> transfers;     // where segments are not apart: of channels between pipelines
    std::vector<std::pair<int, double>> load;   // bytes over shared capacities
    std::vector<std::pair<int, double>> first;  // first messages that pass them at once
  };
  struct Channel {  // from a stage to one of another pipeline
    int stage = -1;
    unsigned sync_round = 0;  // of all exchanges: what is of another is over
    double busy_s = 0;        // until when
  };

  bool is_shared() const { return model_.network.shared_count() > 0; }
  const std::vector<int>& devices_of(int pipeline, int computed_stage) const;
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
  double together_s(const std::vector<int>& from, const std::vector<int>& to, int layer) const;
  double all_reduce_s(const std::vector<int>& devices, std::pair<int, int> layers, bool backward) const;
  // What messages of pipelines cost and share (iteration_links.cpp).
  void refresh_egress(int pipeline);
  void refresh_load(int pipeline);
  void refresh_opposite_direction(int pipeline);
  double occupancy_beside_s(const std::vector<int>& from, const std::vector<int>& to, int layer,
                            int other_from, int other_to, int pipeline) const;
  void share_links();
  void share_links_of(int pipeline);
  void refresh_first_messages(PipelineState& pipeline_state) const;
  void apply_synchronized_contention();
  void apply_synchronized_contention(std::size_t boundary, bool forward);
  void apply_random_contention(PipelineState& pipeline_state) const;
  int in_flight(const PipelineState& pipeline_state) const;
  void refresh_contentions(PipelineState& pipeline_state) const;
  // Exchanges (iteration_exchanges.cpp).
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
  // What compressing gradients takes devices (iteration_recoding.cpp).
  void count_compressed(GradientBucket& bucket);
  static void reset_codecs(PipelineState& pipeline_state, std::size_t stages);
  Codec& codec_of(int pipeline, int computed_stage);
  double compressed_s(int pipeline, std::size_t bucket);
  double compressed_after_s(int pipeline, const GradientBucket& bucket);
  double compressed_in_backward_s(int pipeline, const GradientBucket& bucket);
  double deferred_s(int pipeline, int stage);
  double decompress_before(int pipeline, int stage, double now_s);
  void decompress_remaining();
  void finish();

  const IterationModel& model_;
  Plan plan_;
  int flush_;
  bool is_fresh_ = false, are_buckets_known_ = false, are_buckets_disjoint_ = true;
  std::vector<PipelineState> pipeline_states_;
  std::vector<GradientBucket> buckets_;  // in the order of the layers
  InFlightByDevice held_;
  /// By pipeline, empty where not used; by stage, then other pipeline, then its kept stages, then channel.
  /// Without chunks segments go from the last stages to the first, and what went to a later one counts no
  /// more; with chunks they do so again and again, and all stages are kept.
  std::vector<std::vector<Channel>> channels_;
  std::size_t kept_stages_ = 1;
  unsigned sync_round_ = 0;
  std::vector<double> forward_load_, backward_load_;  // bytes an iteration over each shared capacity
  std::vector<int> concurrent_messages_;              // and messages at a time, at most
  std::vector<FirstMessage> first_messages_;          // of a boundary at hand
  std::vector<int> link_numbers_;                     // of a pipeline at hand, in the order of its hops
  std::vector<double> busy_s_;                        // of each shared capacity, by exchanges
  std::vector<std::size_t> order_;                    // of segments, by start
  GradientSyncTime sync_time_;
  // Of a segment's parts: each channel between stages, and bytes; of the one at hand: its phases, begin and
  // end.
  std::vector<double> part_busy_s_, part_bytes_;
  std::vector<bool> part_compressed_;
  std::vector<std::pair<double, double>> part_phases_;
  IterationEstimate estimate_;
  double mean_end_s_ = 0;
};

/// Throws as IterationTimer does.
IterationEstimate estimate_iteration(const IterationModel& model, const Plan& plan);

}  // namespace dtfm::cost
