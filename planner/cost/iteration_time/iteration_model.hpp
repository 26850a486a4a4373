// Immutable data that all estimates of one job on one topology share.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "core/plan/compression.hpp"
#include "core/plan/problem.hpp"
#include "core/plan/sharing_replicas.hpp"
#include "planner/cost/iteration_time/network_cost.hpp"
#include "planner/cost/iteration_time/pipeline_time.hpp"
#include "planner/cost/iteration_time/stage_cost.hpp"

namespace dtfm::cost {

/// Devices of one class have the same links to every device of another host, the same times and the same
/// memory.
struct DeviceClass {
  int network_kind = 0, stage_kind = 0, gpu = 0;
  friend auto operator<=>(const DeviceClass&, const DeviceClass&) = default;
};

/// Immutable; `problem` must outlive it.
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
  /// Smallest ÷ largest degree.
  double smallest_degree_share() const {
    return static_cast<double>(by_degree.front().devices()) / stages.devices();
  }
  bool is_compressed(int from, int to) const {
    return dtfm::is_compressed(problem.topology, problem.job.execution.compression, from, to);
  }
  /// Bytes of each of the `parts` messages at the boundary before `layer`.
  double boundary_bytes(int from, int to, int parts, int layer) const {
    return stages_of(static_cast<std::size_t>(parts)).boundary_bytes(layer, is_compressed(from, to));
  }
  /// Fraction of the messages between stages `own` and `other` in one direction that is compressed, for
  /// the device of `own` with the largest fraction.
  enum class Direction { sent, received };
  double compressed_share(const std::vector<int>& own, const std::vector<int>& other,
                          Direction direction) const;
  DeviceClass class_of(int device) const {
    return {network.kind(device), stages.kind_of(device),
            problem.topology->devices[static_cast<std::size_t>(device)].gpu};
  }
  /// Micro-batches between two flushes, whose activations a device may hold at a time. With partitioned
  /// gradients every micro-batch ends before the next one begins.
  int micro_batches_per_round(int its_flush, int micro_batches) const {
    return sharding.gradients ? std::min(1, micro_batches)
                              : micro_batches_per_flush(its_flush, micro_batches);
  }
  /// Replicas that partition the state of every layer of a plan of the job.
  int replicas_of(const Plan& plan) const { return sharing_replicas(problem.topology, plan); }
  /// Why the compute times of a device are unknown at some degree; empty if all are known.
  const std::string& unknown(int device) const;

  const Problem& problem;
  std::vector<StageCosts> by_degree;
  std::vector<std::size_t> number_of_degree;  // index into by_degree, by degree
  const StageCosts& stages;                   // of the largest degree
  std::shared_ptr<const NetworkCost> shared_network;
  const NetworkCost& network;
  Schedule schedule;
  Messaging messaging;
  GradientSync sync;
  const OptimizerShardingTraits& sharding;
  int chunks;  // stages per device
  int flush;   // micro-batches between flushes; 0: one flush per iteration
};

}  // namespace dtfm::cost
