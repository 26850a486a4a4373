// What a visit, a step and a move cost in a swarm: seconds and bytes, from the stage loads of the simulator.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "planner/core/problem.hpp"

namespace dtfm::sim {

class SwarmCosts {
 public:
  /// Layers in `stages` runs as equal as can be. Throws Error for layers whose time is not known on a device.
  SwarmCosts(const Problem& problem, int stages);

  int stages() const { return static_cast<int>(stage_costs_.size()); }
  int samples() const { return samples_; }  // of a micro-batch
  std::pair<int, int> layers(int stage) const { return stage_costs_[at(stage)].layers; }
  /// Devices that are alike have the same number, from 0 on.
  int kind(int device) const { return kind_[at(device)]; }
  int kinds() const { return static_cast<int>(kind_times_.size()); }
  /// Of a micro-batch at full speed; backward with the forward that it computes again.
  double forward_s(int kind, int stage) const { return times(kind, stage).forward; }
  double backward_s(int kind, int stage) const { return times(kind, stage).backward; }
  double update_s(int kind, int stage) const { return times(kind, stage).update; }
  /// Samples per second of a peer that does nothing but forwards and backwards of the stage.
  double rate(int kind, int stage) const {
    return samples_ / (times(kind, stage).forward + times(kind, stage).backward);
  }
  /// Activations of a micro-batch that go into `stage`, or out of the one before it, as they are sent.
  double boundary_bytes(int stage) const { return boundary_bytes_[at(stage)]; }
  /// As they are exchanged: those of the layers ÷ the constants' sync efficiency.
  double gradient_bytes(int stage) const { return stage_costs_[at(stage)].gradient_bytes; }
  /// What compressing them takes a peer, and expanding.
  double gradient_compression_s(int stage) const { return stage_costs_[at(stage)].gradient_compression_s; }
  double state_bytes(int stage) const { return stage_costs_[at(stage)].state_bytes; }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
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
  std::vector<double> boundary_bytes_;  // of each stage's input, and of what the last one gives out
  std::vector<int> kind_;
  std::vector<std::vector<Times>> kind_times_;  // [kind][stage]
};

/// What each of `members` (devices) can move in an all-reduce with the others, bytes per second: the least of
/// the sums of its pairs' bandwidths, out and in (a `shared_by_sender` entry counts once), and its shares of
/// what device, host and site can send and receive; times the network efficiency. Capacities of
/// pairs of sites are left out.
std::vector<double> all_reduce_rates(const Problem& problem, std::span<const int> members);

/// Seconds in which no pair of `members` can be through, nor an entry that a sender shares: i sends j `bytes`
/// (w_i
/// + w_j), its own part to be added up by j, and the sum of what it adds up itself.
double slowest_pair_s(const Problem& problem, std::span<const int> members, double bytes,
                      std::span<const double> shards);

}  // namespace dtfm::sim
