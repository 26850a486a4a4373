// Cost of a stage for its devices: seconds, bytes, memory. These formulas are independent of the simulator's.
#pragma once

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/communication.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "core/plan/stage_mesh.hpp"
#include "planner/cost/iteration_time/stage_memory.hpp"

namespace dtfm::cost {

/// Seconds of one device: forward and backward per micro-batch, update per optimizer step.
struct ComputeTime {
  double forward_s = 0, backward_s = 0, update_s = 0;  // backward includes recomputation
  double weight_gradient_s = 0;                        // part of `backward_s`
  double hidden_forward_s = 0, hidden_backward_s = 0;  // parts that overlap with exchanges of keys and values
};

/// How the devices of a stage exchange activations, in this order: keys and values during each pass, the
/// others after it. host_all_to_all is the step of a hierarchical dispatch within hosts; it follows
/// all_to_all.
enum class Exchange : unsigned char { keys_values, all_reduce, all_to_all, host_all_to_all };
inline constexpr std::array exchange_kinds = {Exchange::keys_values, Exchange::all_reduce,
                                              Exchange::all_to_all, Exchange::host_all_to_all};

/// Of a micro-batch in a pass: messages that a device sends to one of its peers, one after the other, and
/// their total bytes.
struct ExchangedData {
  double messages = 0, bytes = 0;
};

/// Costs of the stages of one job on one topology with one number of devices. `layers` is always a range
/// [first, second) of the job's layers; prefix sums give its totals in constant time. The first `recomputed`
/// of them are recomputed, or offloaded with Recomputation::offload; by default, those of one (virtual) stage
/// (ExecutionConfig::recomputed_layers).
class StageCosts {
 public:
  /// `problem` must outlive this.
  StageCosts(const Problem& problem, int devices);

  const Job& job() const { return problem_.job; }
  int layers() const { return layers_; }
  const StageMemory& memory() const { return memory_; }
  const LayerBytes& bytes() const { return memory_.bytes(); }
  const StageMesh& mesh() const { return memory_.mesh(); }
  int devices() const { return mesh().devices(); }
  /// Devices of one kind have the same GPU and speed, hence the same times.
  int kind_of(int device) const { return kind_[static_cast<std::size_t>(device)]; }
  int kinds() const { return static_cast<int>(times_.size()); }
  /// Why the compute times of a device are unknown; empty if they are known.
  const std::string& unknown(int device) const;
  /// How many of the layers are recomputed, if they are those of so many virtual stages.
  int recomputed(std::pair<int, int> layers, int stages = 1) const {
    return problem_.job.execution.recomputed_layers(layers.second - layers.first, stages);
  }
  /// How many of the layers are recomputed at least, in any stages.
  int min_recomputed(std::pair<int, int> layers) const {
    return problem_.job.execution.min_recomputed_layers(layers.second - layers.first);
  }
  /// Time of a device of that kind, whose times must be known, without exchanges. Each pass takes at least as
  /// long as the transfer of its offloaded activations.
  ComputeTime compute(int kind, std::pair<int, int> layers, int recomputed) const;
  /// With the layers that are recomputed by default, none of which is offloaded.
  ComputeTime compute(int kind, std::pair<int, int> layers) const {
    const bool offloads = traits(problem_.job.execution.recomputation).offloads;
    return compute(kind, layers, offloads ? 0 : recomputed(layers));
  }

  /// Bytes of a micro-batch that one device sends over the boundary before `layer`, and seconds to compress
  /// or decompress them.
  double boundary_bytes(int layer, bool compressed = true) const {
    return (compressed ? boundary_bytes_ : output_)[static_cast<std::size_t>(layer)];
  }
  double compression_s(int layer) const { return compression_s_[static_cast<std::size_t>(layer)]; }
  /// Gradient bytes of one device, of experts and of other parameters. `with_first`: the stage also has the
  /// first layer, so tied parameters are not counted again.
  double gradient_bytes(std::pair<int, int> layers, bool with_first, bool compressed = true) const;
  /// Seconds to compress gradients to `bytes`, or to decompress them.
  double gradient_compression_s(double bytes) const;
  ExchangedData exchanged(Exchange kind, std::pair<int, int> layers, bool backward, int recomputed) const;
  ExchangedData exchanged(Exchange kind, std::pair<int, int> layers, bool backward) const {
    return exchanged(kind, layers, backward, recomputed(layers));
  }
  /// Whether the compute times of devices of that kind contain the all-reduces.
  bool includes_all_reduces(int kind) const {
    return times_[static_cast<std::size_t>(kind)].includes_all_reduces;
  }

  /// Bytes of parameters that one device of a sharded optimizer all-gathers. `with_first` as above.
  double parameter_bytes(std::pair<int, int> layers, bool with_first) const;

  /// StageMemory::needs.
  StageNeeds needs(std::pair<int, int> layers, int replicas, int recomputed) const {
    return memory_.needs(layers, replicas, recomputed);
  }
  StageNeeds needs(std::pair<int, int> layers, int replicas) const {
    return needs(layers, replicas, recomputed(layers));
  }
  /// Activations that each device keeps of a micro-batch at least, without buffers for messages.
  double least_kept_bytes(std::pair<int, int> layers) const {
    return traits(problem_.job.execution.recomputation).is_per_stage()
               ? memory_.least_kept_bytes(layers)
               : memory_.kept_bytes(layers, recomputed(layers));
  }
  double model_flops() const { return model_flops_; }  // per sequence: forward and backward
  /// Bytes of state that a device must load to take over the stage.
  double saved_bytes(std::pair<int, int> layers) const;

 private:
  struct KindTimes {
    std::string unknown;
    bool includes_all_reduces = false;
    std::vector<ComputeTime> before;    // prefix sums, [layers + 1]
    std::vector<ComputeTime> kept;      // the same if no layer is recomputed
    std::vector<double> tied_update_s;  // prefix sums of the updates of parameters tied to the first layer
    std::vector<double> offload_s;      // prefix sums of one direction; empty: layers are not offloaded
  };
  void find_kinds();
  std::vector<double> offload_s_before(const Gpu& gpu) const;
  void find_bytes();
  std::vector<ExchangedData> exchanges_before(Exchange kind, Pass pass, bool recomputed) const;
  double held_elements(std::pair<int, int> layers) const;

  const Problem& problem_;
  StageMemory memory_;
  int layers_;
  std::vector<int> kind_;  // by device
  std::vector<KindTimes> times_;
  double saved_ = 0, model_flops_ = 0, gradient_compression_s_per_byte_ = 0;
  std::vector<double>
      output_;  // uncompressed bytes that a device sends per micro-batch before each layer, and at the end
  std::vector<double> boundary_bytes_, compression_s_;  // before each layer
  std::array<std::array<std::vector<ExchangedData>, 2>, exchange_kinds.size()>
      exchanged_;  // prefix sums, [kind][backward]
  std::array<std::vector<ExchangedData>, exchange_kinds.size()>
      exchanged_kept_;  // the same of the backward if no layer is recomputed
};

}  // namespace dtfm::cost
