// What the devices of a plan send each other in an iteration: who, what, when and how often. The simulator
// lowers this list to tasks, the estimate times it with its own formulas, and exporters write it. They
// determine durations, compression and the links that messages cross.
#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "core/collectives/collective.hpp"
#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/stage_mesh.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm {

enum class Payload : unsigned char {
  activations,     // over a boundary between stages, or their gradients if a backward pass sends them
  partial_sums,    // of activations or their gradients, which the devices of a stage add up
  keys_values,     // of attention, or also their gradients; with all-to-all also queries and outputs
  expert_tokens,   // vectors of tokens to the devices with their experts, results back, or their gradients
  host_tokens,     // the step of a hierarchical dispatch within hosts; expert_tokens is that between hosts
  gradients,       // of parameters
  tied_gradients,  // of the parameters that a layer shares with the first one
  parameters
};

enum class Pass : unsigned char { forward, backward };

/// When a communication begins.
enum class Moment : unsigned char {
  before_pass,          // before each pass over its layers, in every micro-batch
  after_pass,           // after each such pass
  after_last_backward,  // when all members have finished the last backward pass of its layers
  after_gradient_sync,  // when its layers and the first layer are synchronized
  after_update          // when all members have updated their weights
};

/// A communication among devices. One of a single device sends nothing.
struct Communication {
  Payload payload = Payload::gradients;
  Moment moment = Moment::after_last_backward;
  Pass pass = Pass::backward;  // for before_pass and after_pass
  std::pair<int, int> layers = {};
  std::vector<int> devices = {};                 // in the order of the collective
  std::vector<int> pipelines = {}, stages = {};  // [member]: what its device computes
  bool experts = false;  // gradients or parameters of routed experts, not of what surrounds them
  // The data of its layers are divided among `parts` communications; this is number `part`.
  int part = 0, parts = 1;
  GradientSync algorithm = GradientSync::ring;
  Collective collective = Collective::all_reduce;
  /// Uncompressed bytes that a member holds before the communication; after it, for an all-gather.
  double bytes = 0;
  int count = 1;          // how often it is repeated, one after another
  bool overlaps = false;  // members may synchronize other layers meanwhile
};

/// The devices of the stage of a member.
inline const std::vector<int>& stage_devices(const Plan& plan, const Communication& it, std::size_t member) {
  return devices_of(plan.pipelines[at(it.pipelines[member])], at(it.stages[member]));
}

/// Bytes of what layers [first, second) communicate, uncompressed, of all parts together. Where experts are
/// divided apart (StageMesh), they are not part of the elements.
class LayerBytes {
 public:
  LayerBytes(const Job& job, const ExecutionConfig& execution);

  int layers() const { return static_cast<int>(output_.size()); }
  /// Parameters. `with_first`, here and below: the same devices hold the first layer, so that parameters tied
  /// to it count only there.
  double elements(std::pair<int, int> layers, bool with_first) const {
    return between(elements_, layers) - (with_first ? between(tied_, layers) : 0);
  }
  double expert_elements(std::pair<int, int> layers) const { return between(expert_elements_, layers); }
  /// Parameters that one device of a stage has.
  double held_elements(std::pair<int, int> layers, bool with_first, const StageMesh& mesh) const {
    return elements(layers, with_first) / mesh.shards(false) + expert_elements(layers) / mesh.shards(true);
  }
  /// Copies of the weights that the layers multiply in another format.
  double quantized_copies(std::pair<int, int> layers, const StageMesh& mesh) const {
    return between(quantized_copies_, layers) / mesh.shards(false) +
           between(expert_copies_, layers) / mesh.shards(true);
  }
  double gradients(std::pair<int, int> layers, bool with_first, bool experts = false) const {
    return (experts ? expert_elements(layers) : elements(layers, with_first)) * gradient_;
  }
  double parameters(std::pair<int, int> layers, bool with_first, bool experts = false) const {
    return (experts ? expert_elements(layers) : elements(layers, with_first)) * weight_;
  }
  double tied_gradients(int layer) const { return between(tied_, {layer, layer + 1}) * gradient_; }
  /// What a layer computes for a micro-batch. Its gradients have as many bytes.
  double output(int layer) const { return output_[at(layer)]; }
  /// One of the `parts` messages in which a micro-batch crosses the boundary after a layer.
  double message(int layer, int parts) const {
    return output(layer) / (divides_messages_ ? parts : token_parts_);
  }
  /// Vectors of tokens that a micro-batch sends to experts on other devices; 0 if they are not divided apart.
  double expert_tokens(int layer) const { return expert_tokens_[at(layer)]; }
  /// See vectors_per_visit in core/plan/stage_mesh.hpp. The busiest part gets no more than every token.
  double vectors_per_visit(int parts) const {
    return std::min(dtfm::vectors_per_visit(experts_, parts), 1 / (experts_.per_token * expert_imbalance_));
  }
  /// Bytes of the keys and values of all tokens, which the devices of a stage exchange; 0 if each device has
  /// all tokens. With divides_heads: the mean of queries, keys, values and outputs, each sent separately.
  double keys_values(int layer) const { return keys_values_[at(layer)]; }
  bool divides_heads() const { return divides_heads_; }
  /// Number of such exchanges in a pass. Without divides_heads, the backward pass exchanges keys and values,
  /// then their gradients. `recomputed`, here and below: whether the layer is recomputed
  /// (ExecutionConfig::recomputed_layers).
  int key_rounds(int layer, Pass pass, bool recomputed = true) const {
    if (keys_values(layer) == 0) return 0;
    const int forward = divides_heads_ ? 4 : 1, own = pass == Pass::forward || divides_heads_ ? forward : 2;
    return own + repeated(pass, recomputed && recomputation_.repeats_attention, forward);
  }
  /// All-reduces of a layer's output in a tensor-parallel group, and all-to-alls among its experts, in a
  /// pass.
  int all_reduces(int layer, Pass pass, bool recomputed = true) const {
    const int all = all_reduces_[at(layer)];
    return all + repeated(pass, recomputed && recomputation_.repeats_mixers, 1) +
           repeated(pass, recomputed && recomputation_.repeats_mlps, all - 1);
  }
  int all_to_alls(int layer, Pass pass, bool recomputed = true) const {
    return expert_tokens(layer) > 0 ? 2 + repeated(pass, recomputed && recomputation_.repeats_mlps, 2) : 0;
  }

 private:
  static double between(const std::vector<double>& before, std::pair<int, int> layers) {
    return before[at(layers.second)] - before[at(layers.first)];
  }

  /// How many of so many communications of the forward a pass repeats.
  static int repeated(Pass pass, bool repeats, int count) {
    return pass == Pass::backward && repeats ? count : 0;
  }

  // Of all layers before, [layer].
  std::vector<double> elements_, expert_elements_, tied_, quantized_copies_, expert_copies_;
  std::vector<double> output_, keys_values_, expert_tokens_;  // [layer]
  std::vector<int> all_reduces_;                              // [layer]: in the forward
  double gradient_ = 0, weight_ = 0;                          // bytes of an element
  int token_parts_ = 1;
  bool divides_messages_ = true, divides_heads_ = false;
  RecomputationTraits recomputation_;
  Experts experts_;
  double expert_imbalance_ = 1;
};

// What the devices of a stage send each other.
//
// Tensor-parallel groups: every layer is divided as Megatron-LM divides the blocks of a transformer (Shoeybi
// et al., arXiv 1909.08053, section 3; Narayanan et al., arXiv 2104.04473, section 2.3), also in models of
// kind `layers`: each has two all-reduces of its output in the forward, two in the backward, and with
// recompute `full` those of the forward once more. (With sequence parallelism, Korthikanti et al., arXiv
// 2205.05198, each all-reduce becomes a reduce-scatter and an all-gather, which send the same messages.) The
// all-reduces of the embedding and of the head are not modelled. Activations inside a stage are not
// compressed.
//
// Context-parallel groups: attention is computed in c steps, each with the keys and values of another device,
// which arrive during the step before (Liu et al., arXiv 2310.01889); in the backward their gradients go
// around the ring, too. Recomputed attention needs them once more. An all-gather sends the same messages
// before the attention, and a reduce-scatter of their gradients (Llama Team, arXiv 2407.21783). With
// all-to-alls (Jacobs et al., arXiv 2309.14509), queries, keys and values of the device's tokens become those
// of its heads, and outputs the reverse; their gradients in the backward as well.
//
// Groups that divide experts (StageMesh::expert): a layer sends every token to its experts and their results
// back, an all-to-all each, in the forward and in the backward, and with recompute `full` once more.
// Experts are equally loaded, and each token-expert pair is a vector of its own. With hierarchical dispatch,
// a device sends a token once to each other host with any of its experts, to the device of the same local
// rank, which forwards it once to each device with any of these experts; results return the same way, summed
// on each host (DeepEP; DeepSeek-AI, arXiv 2412.19437, section 3.2.2). MLPs that consist of such experts
// alone need no all-reduces. All devices are charged with the load of the busiest one (`expert_imbalance`).

// The following functions take plans whose stages are the virtual stages (expand_virtual_stages).

/// What the devices of a pipeline send each other in every micro-batch, stage by stage. Includes
/// all-reduces that profiled layer times already contain (LayerTimes::includes_all_reduces).
std::vector<Communication> pipeline_communications(const Topology& topology, const LayerBytes& bytes,
                                                   const Plan& plan, int pipeline);
/// The number of hosts among which an expert-parallel group dispatches tokens hierarchically. 1 if it
/// dispatches directly: because the job says so, it is on one host, or its hosts do not have equal,
/// consecutive blocks of it.
int dispatching_hosts(const Topology& topology, const ExecutionConfig& execution, std::span<const int> group);
/// Communications among replicas, and between copies of tied parameters, in the order in which they begin.
/// Replicas that partition gradients must each be a stage on a device (check_optimizer_sharding); what they
/// send is ordered by layer. `sharing`: the replicas that partition a state (sharing_replicas); 0: all do.
std::vector<Communication> replica_communications(const LayerBytes& bytes, const Plan& plan, int sharing = 0);

// The estimate evaluates many plans and computes only parts of that list. Here, the stages of `plan` may be
// those of devices; `layers` gives the layers of the virtual stages of each pipeline.

using StageLayers = std::vector<std::pair<int, int>>;

/// Consecutive layers that lie in one stage of each pipeline, so that the same devices synchronize them.
struct GradientBucket {
  std::pair<int, int> layers;
  std::vector<int> stages;  // [pipeline]: that holds them; no_index: none does
  bool holds_first = true;  // the same devices hold the first layer
};

/// Computes the buckets of all layers in ascending order: as long as possible, or one per layer with
/// `overlap`. Reuses the memory of `buckets`.
void find_gradient_buckets(const Plan& plan, std::span<const StageLayers* const> layers, int layer_count,
                           std::vector<GradientBucket>& buckets);
/// The synchronization of a bucket, in as many parts as the largest of its stages has shards; then that of
/// its experts, if these are divided apart, which begins when the former has ended.
std::vector<Communication> gradient_syncs(const LayerBytes& bytes, const Plan& plan,
                                          const GradientBucket& bucket);
/// The all-gather of parameters that follows the update of a sharded optimizer, after the synchronization of
/// its gradients.
Communication parameter_gather(const LayerBytes& bytes, const Communication& gradients, bool holds_first);
/// What replicas that partition gradients send each other, layer by layer, because no device has the memory
/// to keep the gradients, or the parameters, of others until the last micro-batch; without the members, which
/// are the devices of all pipelines. Devices with fewer micro-batches than others still take part.
std::vector<Communication> partition_communications(const LayerBytes& bytes,
                                                    const ExecutionConfig& execution);
/// In every pipeline, the all-reduces of the gradients of parameters tied to the first layer, in parts.
std::vector<Communication> tied_syncs(const LayerBytes& bytes, const Plan& plan,
                                      std::span<const StageLayers* const> layers, int sharing = 0);

}  // namespace dtfm
