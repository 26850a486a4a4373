// Seconds and bytes of visits, steps and moves in a swarm, derived from the stage loads of the simulator.
#pragma once

#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "core/plan/problem.hpp"
#include "simulator/swarm/swarm_traffic.hpp"

namespace dtfm::sim {

class SwarmCosts {
 public:
  /// Splits the layers as evenly as possible into `stages` stages. Throws Error for layers whose time on a
  /// device is unknown.
  SwarmCosts(const Problem& problem, int stages);

  int samples() const { return samples_; }  // per micro-batch
  std::pair<int, int> layers(int stage) const { return stage_costs_[at(stage)].layers; }
  /// Devices of equal GPU and speed have the same kind, a number from 0.
  int kind(int device) const { return kind_[at(device)]; }
  /// Seconds for a micro-batch at full speed. The backward pass includes recomputing its forward pass.
  double forward_s(int kind, int stage) const { return times(kind, stage).forward; }
  double backward_s(int kind, int stage) const { return times(kind, stage).backward; }
  double update_s(int kind, int stage) const { return times(kind, stage).update; }
  /// Samples per second of a peer that only computes forward and backward passes of the stage.
  double rate(int kind, int stage) const {
    return samples_ / (times(kind, stage).forward + times(kind, stage).backward);
  }
  const VisitBytes& visit_bytes(int stage, bool backward) const {
    const StageTraffic& it = traffic_[at(stage)];
    return backward ? it.backward : it.forward;
  }
  /// Gradient bytes to be synchronized: those of the layers ÷ the sync efficiency of the constants.
  double gradient_bytes(int stage) const { return stage_costs_[at(stage)].gradient_bytes; }
  /// Seconds that a peer needs to compress and decompress the gradients.
  double gradient_compression_s(int stage) const { return stage_costs_[at(stage)].gradient_compression_s; }
  double state_bytes(int stage) const { return stage_costs_[at(stage)].state_bytes; }

 private:
  struct Times {
    double forward = 0, backward = 0, update = 0;
  };
  struct StageCosts {
    std::pair<int, int> layers;
    double gradient_bytes = 0, state_bytes = 0, gradient_compression_s = 0;
  };
  const Times& times(int kind, int stage) const { return kind_times_[at(kind)][at(stage)]; }

  int samples_;
  std::vector<StageCosts> stage_costs_;
  std::vector<StageTraffic> traffic_;
  std::vector<int> kind_;
  std::vector<std::vector<Times>> kind_times_;  // [kind][stage]
};

}  // namespace dtfm::sim
