// What each of the trainers runs for which plans are made (docs/targets.md gives the sources). A trainer is
// one value of the enum in target_kind.hpp and one row of the table in target.cpp.
#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/collectives/collective.hpp"
#include "core/model/matmul_format.hpp"
#include "core/model/model_features.hpp"
#include "core/model/optimizer.hpp"
#include "core/model/precision.hpp"
#include "core/model/recomputation.hpp"
#include "core/plan/compression_preset.hpp"
#include "core/plan/optimizer_sharding.hpp"
#include "core/plan/stage_exchange.hpp"
#include "core/plan/target_kind.hpp"
#include "core/schedule/messaging.hpp"
#include "core/schedule/schedule.hpp"

namespace dtfm {

struct ExecutionConfig;
struct Job;

/// The numbers of layers that the stages of a pipeline may have.
enum class LayerCuts : unsigned char {
  any,      // also none
  nonempty  // at least one
};

/// Whether a pipeline can be flushed within an iteration.
enum class FlushSupport : unsigned char {
  never,
  equal_rounds,  // the flushes divide the iteration into equal rounds
  any
};

/// What must be a multiple of the tensor degree, besides the attention heads.
enum class TensorDivision : unsigned char {
  heads,
  widths,              // MLP width; sequence with sequence parallelism; key-value heads, or they divide it
  widths_and_kv_heads  // the same, but key-value heads are not replicated
};

/// The two orders in which trainers number their workers. The rank of tensor-parallel shard t (of T), replica
/// d (of D) and stage p (of P) is:
///   stage_major     t + T (d + D p): the default of Megatron-LM, DeepSpeed, torchtitan
///   pipeline_major  t + T (p + P d): DT-FM, Megatron-LM with --use-tp-pp-dp-mapping
enum class RankOrder : unsigned char { stage_major, pipeline_major };

/// The name used on the command line, such as "stage-major".
std::string_view rank_order_name(RankOrder order);

inline constexpr std::array plain_products = {MatmulFormat::precision};
inline constexpr std::array ring_only = {ContextExchange::ring};
inline constexpr std::array flat_only = {ExpertDispatch::flat};

struct TargetTraits {
  Target kind = {};
  std::string_view name = {};
  // What it can run. The first is what plans with other settings get.
  std::span<const Schedule> schedules = {};
  std::span<const GradientSync> gradient_syncs = {};
  std::span<const Recomputation> recomputations = {};
  bool recompute_layers = false;  // as in ExecutionConfig
  std::span<const RankOrder> orders = {};
  std::span<const OptimizerSharding> optimizer_shardings = {};
  std::span<const CompressionMethod> compressions = {};           // besides none
  std::span<const Precision> precisions = {};                     // empty: all
  std::span<const MatmulFormat> matmul_formats = plain_products;  // others only with 16 bits
  /// The optimizer, with its bytes per parameter, with which it trains a job that has this one.
  Optimizer (*optimizer)(Optimizer, Precision) = nullptr;
  bool shards_bf16 = false;  // in bf16, the replicas always partition the optimizer state
  Messaging messaging = Messaging::ahead;
  LayerCuts cuts = LayerCuts::nonempty;
  int min_stages = 1, min_interleaved_stages = 1;
  bool transformers_only = true;                // otherwise it trains all models whose modules the user gives
  std::span<const ModelFeature> features = {};  // of transformers, which it builds
  /// Why it cannot build a model that has only these features; empty if it can. May be null.
  std::string_view (*model_obstacle)(const Transformer&) = nullptr;
  bool encoders = true;           // trains BERT
  bool llama_only = false;        // RMS norms, gated MLPs, rotary positions, no biases
  bool tied_pipelines = true;     // ties embeddings in pipelines of several stages, too
  bool flash_in_16_bits = false;  // flash attention only in fp16 and bf16
  bool filled_1f1b = false;       // 1f1b-blocking requires at least as many micro-batches per flush as stages
  bool split_recompute = true;    // recomputes once for both halves of a split backward pass
  bool uniform_pipelines = true;  // all pipelines have the same layers, micro-batches and tensor degree
  bool tensor_parallelism = true;
  bool context_parallelism = false;
  bool expert_parallelism = false;  // divides experts among the devices of a stage
  std::span<const ContextExchange> context_exchanges = ring_only;
  /// What a model requires of context parallelism, if it does not have it; empty otherwise. May be null.
  std::string_view (*context_obstacle)(const Transformer&, ContextExchange) = nullptr;
  std::span<const ExpertDispatch> expert_dispatches = flat_only;
  TensorDivision tensor_division = TensorDivision::heads;
  FlushSupport flushes = FlushSupport::never;
  bool overlap = false;                        // supports ExecutionConfig::overlap
  bool tied_embedding_sync = false;            // as in ExecutionConfig
  bool iteration_barrier = true;               // as in ExecutionConfig; with fp16 always
  std::optional<bool> sequence_parallel = {};  // empty: as the job says
  bool nccl_chooses_all_reduce = true;         // NCCL picks the algorithm of gradient all-reduces
};

/// Whether a target runs a schedule, gradient synchronization or recomputation.
template <class Kind>
bool has(std::span<const Kind> kinds, Kind kind) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

/// A name that was a target's until the last release, or that of an export for which no plans are made, and
/// the message of the error that it is.
struct RemovedTarget {
  std::string_view name, message;
};
std::span<const RemovedTarget> removed_targets();

/// A name that a target had in the last release.
struct RenamedTarget {
  std::string_view name;
  Target kind = {};
};
std::span<const RenamedTarget> renamed_targets();
/// The present name of a target that was renamed; other texts are returned unchanged.
std::string_view current_name(std::string_view name);

/// A row for each value, in the order of the enum.
std::span<const TargetTraits> target_table();
const TargetTraits& traits(Target target);
std::string_view name_of(Target target);

/// The schedule with which a search begins if the job leaves it open; it has no chunks, unless all that the
/// job lists do.
Schedule first_schedule(const Job& job);
/// The smallest number of stages with the job's schedule.
int min_stages(const Job& job);
/// Whether the job's target runs pipelines of so many stages with so many micro-batches each.
bool can_have_stages(const Job& job, int stages, int micro_batches);
/// Whether the schedule does not split backward passes, or activations are not offloaded: inputs of matrix
/// products would stay on the device from the gradients of inputs to those of weights.
bool can_split(const ExecutionConfig& execution);
/// The same, and whether the target splits the backward passes of the job's schedule with its recomputation;
/// if they are not split, or nothing is recomputed, it does.
bool can_split(const TargetTraits& target, const ExecutionConfig& execution);
bool can_split(const Job& job);
/// Whether the planner may add pipeline flushes within an iteration.
bool may_flush(const Job& job);
/// Why the products of a transformer cannot be quantized on so many tensor-parallel devices; empty if they
/// can, or need not be.
std::string quantization_obstacle(const Job& job, int tensor);
/// Why a target cannot divide the layers of the job's model among so many devices; empty if it can.
std::string tensor_obstacle(const TargetTraits& target, const Job& job, int tensor);
/// Why a target cannot divide the sequences of the job's model as the job does; empty if it can.
std::string context_obstacle(const TargetTraits& target, const Job& job);
/// Whether the target can combine the job's gradient_sync with its optimizer_sharding: NCCL-based trainers
/// support instances only with a sharded optimizer.
bool can_synchronize(const Job& job);
/// Whether every pipeline is a single stage on a single device, because of the job's optimizer sharding.
bool requires_single_devices(const Job& job);

}  // namespace dtfm
