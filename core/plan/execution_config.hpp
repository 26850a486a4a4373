// The settings with which a trainer executes a plan, besides the assignment of layers and micro-batches to
// devices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "core/plan/compression_preset.hpp"
#include "core/collectives/collective.hpp"
#include "core/plan/optimizer_sharding.hpp"
#include "core/model/recomputation.hpp"
#include "core/schedule/messaging.hpp"
#include "core/schedule/schedule.hpp"
#include "core/plan/stage_exchange.hpp"
#include "core/base/units.hpp"

namespace dtfm {

/// The settings that files have: those below, and those of Training and Parallelism (core/plan/job.hpp). Each
/// is a row of the table in core/plan/settings.cpp.
enum class Setting : unsigned char {
  global_batch,
  micro_batch,
  precision,
  matmul,
  optimizer,
  pipeline,
  data,
  tensor,
  context,
  context_exchange,
  stage_data,
  expert,
  expert_dispatch,
  expert_imbalance,
  schedule,
  chunks,
  flush,
  gradient_sync,
  optimizer_sharding,
  overlap,
  tied_embedding_sync,
  iteration_barrier,
  messages,
  sequence_parallel,
  scatter_gather,
  uniform_pipelines,
  recompute,
  recompute_layers,
  activations,
  gradients,
  throughput,
  bandwidth_threshold
};

inline constexpr std::size_t setting_count = static_cast<std::size_t>(Setting::bandwidth_threshold) + 1;

/// `activations` and `gradients` are ratios: bytes sent ÷ bytes uncompressed.
struct Compression {
  double activations = 1, gradients = 1;
  /// Rate at which a device compresses or decompresses, in uncompressed data; empty: that of the preset.
  std::optional<BitsPerSecond> throughput = {};
  /// The presets that define the ratios; empty if only a ratio is given. Without preset and throughput,
  /// compression takes no time.
  std::optional<CompressionPreset> activation_preset = {}, gradient_preset = {};
  /// Only messages over links slower than this are compressed (core/plan/compression.hpp); empty: all.
  std::optional<BitsPerSecond> bandwidth_threshold = {};

  friend bool operator==(const Compression&, const Compression&) = default;
};

struct ExecutionConfig {
  int micro_batch = 1;  // sequences
  /// Degrees inside a stage (core/plan/stage_mesh.hpp). Without `stage_data`, plans have 1, and the planner
  /// chooses it for a job.
  std::optional<int> stage_data = {};
  int context = 1, expert = 1;
  ContextExchange context_exchange = ContextExchange::ring;
  ExpertDispatch expert_dispatch = ExpertDispatch::flat;
  double expert_imbalance = 1;  // tokens routed to the busiest device of an expert-parallel group ÷ the mean
  Schedule schedule = Schedule::gpipe;
  std::optional<int> chunks = {};  // virtual stages per device, for schedule interleaved
  /// Micro-batches after which the pipeline is flushed; empty: once per iteration.
  std::optional<int> flush = {};
  GradientSync gradient_sync = GradientSync::sharded_ps;
  /// Which state the replicas of a layer partition; gradient_sync is the algorithm of the collectives.
  OptimizerSharding optimizer_sharding = OptimizerSharding::none;
  /// Gradients and optimizer state are in host memory, and host processors update (ZeRO-Offload, arXiv
  /// 2101.06840). Only schemes set it, and only the simulator reads it.
  bool optimizer_offload = false;
  bool overlap = false;  // gradient synchronization of a layer overlaps with the backward of others
  Recomputation recomputation = Recomputation::none;
  /// With Recomputation::full: the number of first layers of every (virtual) stage that are recomputed;
  /// empty: all. The embedding and the head are parts of the first and of the last layer (LayerKinds).
  std::optional<int> recompute_layers = {};
  Compression compression = {};
  /// The stages of a pipeline that hold copies of the tied embedding all-reduce its gradients, uncompressed,
  /// after the replicas have (Megatron-LM, core/distributed/finalize_model_grads.py).
  bool tied_embedding_sync = false;
  /// All devices begin an iteration at the same time. Otherwise a device begins when it has updated its
  /// weights and its messages of gradients and parameters have arrived. Only the simulator models this, not
  /// with zero2 or zero3; estimates and bounds always assume a barrier.
  bool iteration_barrier = true;
  /// When devices post receives and wait for sends, as their trainer does.
  Messaging messaging = Messaging::ahead;
  /// Devices do not compute while they send, whatever the schedule. Only the simulator reads it, to measure
  /// sensitivity (planner/api/sensitivity.hpp).
  bool blocking_sends = false;

  /// Groups of tensor-parallel devices in a stage, which compute different tokens.
  int token_parts() const { return context * stage_data.value_or(1); }
  /// Number of recomputed layers among `layers`, which `stages` (virtual) stages divide equally. They are the
  /// first ones of each stage. Only meaningful if `recomputation` is not none. With
  /// Recomputation::as_needed, an upper limit.
  int recomputed_layers(int layers, int stages = 1) const {
    return recompute_layers ? std::min(layers, *recompute_layers * stages) : layers;
  }
  /// How many of the layers are recomputed at least, in any stages.
  int min_recomputed_layers(int layers) const {
    return traits(recomputation).is_per_stage() ? 0 : recomputed_layers(layers, 0);
  }

  friend bool operator==(const ExecutionConfig&, const ExecutionConfig&) = default;
};

}  // namespace dtfm
