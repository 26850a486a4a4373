// What a stage costs the devices that compute it: seconds, bytes, memory. Formulas of planner/cost's own,
// which shares none with the simulator.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"

namespace dtfm::cost {

/// Seconds of one device: of a micro-batch, and of the optimizer's step.
struct ComputeTime {
  double forward_s = 0, backward_s = 0, update_s = 0;  // backward with what is computed again
};

/// Bytes that a device of a stage holds.
struct StageNeeds {
  double state = 0;            // weights, gradients, optimizer
  double per_micro_batch = 0;  // from its forward to its backward
  double working = 0;          // while computing
};

/// The costs of the stages of one job on one topology, at one tensor degree. Layers [first, second) of the
/// job's chain; sums over them take constant time.
class StageCosts {
 public:
  /// `problem` must outlive this.
  StageCosts(const Problem& problem, int tensor);

  const Job& job() const { return problem_.job; }
  int layers() const { return layers_; }
  int tensor() const { return tensor_; }
  /// Devices of one kind have the same times: GPU and speed.
  int kind_of(int device) const { return kind_[static_cast<std::size_t>(device)]; }
  int kinds() const { return static_cast<int>(times_.size()); }
  /// Why the times of a device are not known; empty where they are.
  const std::string& unknown(int device) const;
  /// A device with that kind; times must be known. All-reduces of tensor parallelism are not in it.
  ComputeTime compute(int kind, std::pair<int, int> layers) const;

  /// Of one device's share of a micro-batch, over the boundary before layer `layer`, compressed or not; and
  /// what compressing or expanding them takes its device.
  double boundary_bytes(int layer, bool compressed = true) const {
    return (compressed ? boundary_bytes_ : output_)[static_cast<std::size_t>(layer)];
  }
  double compression_s(int layer) const { return compression_s_[static_cast<std::size_t>(layer)]; }
  /// Of one device, compressed or not. `with_first`: the stage has the first layer too, of which tied
  /// parameters are a copy.
  double gradient_bytes(std::pair<int, int> layers, bool with_first, bool compressed = true) const;
  /// What compressing to so many bytes takes, or expanding them.
  double gradient_compression_s(double bytes) const;
  /// Does it take any time?
  bool has_gradient_compression_time() const { return gradient_compression_s_per_byte_ > 0; }
  /// Messages of every device in the ring of its stage, one after the other, and their bytes: the all-reduces
  /// of a micro-batch.
  struct AllReduces {
    double messages = 0, bytes = 0;
  };
  AllReduces all_reduces(std::pair<int, int> layers, bool backward) const;

  /// Of each of its devices.
  StageNeeds needs(std::pair<int, int> layers) const;
  double model_flops() const { return model_flops_; }  // of a sequence: forward, backward
  /// Bytes that a device of the stage has to fetch to take it over.
  double saved_bytes(std::pair<int, int> layers) const;

 private:
  struct KindTimes {
    std::string unknown;
    std::vector<ComputeTime> before;    // of the layers before each, [layers + 1]
    std::vector<double> tied_update_s;  // of their updates, what is updated with the first layer
  };
  void find_kinds();
  void find_bytes();
  double tied_twice(std::pair<int, int> layers) const;
  double between(const std::vector<double>& before, std::pair<int, int> layers) const {
    return before[static_cast<std::size_t>(layers.second)] - before[static_cast<std::size_t>(layers.first)];
  }

  const Problem& problem_;
  int tensor_, layers_;
  std::vector<int> kind_;  // of each device
  std::vector<KindTimes> times_;
  double held_ = 0, gradient_bytes_per_parameter_ = 0, saved_ = 0;  // bytes a parameter
  double model_flops_ = 0, gradient_compression_s_per_byte_ = 0;
  std::vector<double>
      output_;  // of a micro-batch on one device, uncompressed, before each layer and at the end
  std::vector<double> boundary_bytes_, compression_s_;   // before each layer
  std::vector<double> parameters_, kept_, all_reduced_;  // of the layers before each, of one device
  std::vector<double> working_;                          // of each layer
  std::vector<double> tied_;                             // of each layer, of one device
};

}  // namespace dtfm::cost
