// Task graphs of recoveries, in which devices fetch the weights and optimizer state of their slots, and of
// writing checkpoints.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

/// A transfer of weights and optimizer state of some layers of a stage to one device.
struct Fetch {
  int to = 0, pipeline = 0, stage = 0;
  int part = 0;  // number of the part of the layers' state, among those that the device fetches
  std::pair<int, int> layers = {0, 0};
  std::optional<int> from = {};  // source device; empty: the checkpoint
  double bytes = 0;
};

/// Weights and optimizer state on one device: its shard of the layers of a stage. With optimizer sharding, it
/// has one of several shares of what a checkpoint has of the shard (StateShares).
struct StageShard {
  int device = 0, pipeline = 0, stage = 0;
  int rank = 0;              // of the device within the stage
  std::vector<int> devices;  // of the stage; each has one shard
  std::pair<int, int> layers = {0, 0};
  int share = 0, shares = 1;  // no_index: none of the shares

  friend bool operator==(const StageShard&, const StageShard&) = default;
};

/// The shards of all devices of the `running` pipelines, which share the state among each other. The stages
/// of `computed` are those that are computed (see `expand_virtual_stages`).
std::vector<StageShard> stage_shards(const Topology& topology, const Plan& computed,
                                     const std::vector<bool>& running);

/// The redundant copies that devices hold in addition to their own shards: every stage has a copy on the
/// devices that have the next stage in `initial_plan` (the last stage: on those of the first). Covers
/// `running` pipelines and `available` devices, except devices that compute the stage themselves in
/// `computed`, the current plan.
std::vector<StageShard> redundant_shards(const Topology& topology, const Plan& computed,
                                         const Plan& initial_plan, const std::vector<bool>& running,
                                         const std::vector<bool>& available);

/// The fetches that devices need to get their `wanted` shards. Every layer comes from a device that has the
/// same part of it in a `held` shard, in any pipeline; without such a device, from the checkpoint. Among
/// several sources the one with the earliest arrival is chosen, if every device sent its fetches one after
/// the other and only latency and bandwidth of the pair counted; ties go to the lowest device number. `plan`
/// must have the tensor degrees of the wanted shards.
std::vector<Fetch> plan_fetches(const Problem& problem, const Plan& plan,
                                const std::vector<StageShard>& wanted, const std::vector<StageShard>& held);

/// Task graph that executes all fetches concurrently over the network. A device reads its fetches from a
/// checkpoint that has no device, or that lies on the device itself, one after the other. A fetch without a
/// source device requires a checkpoint.
LabelledGraph recovery_graph(const Problem& problem, const std::vector<Fetch>& fetches,
                             const std::optional<Checkpoint>& checkpoint);

/// Task graph in which the devices of `shards`, which are those of running pipelines (`stage_shards`), write
/// weights and optimizer state to the checkpoint, over the path by which they would read them. Of pipelines
/// with the same share of a layer, the first one writes it.
LabelledGraph checkpoint_graph(const Problem& problem, const Plan& plan,
                               const std::vector<StageShard>& shards, const Checkpoint& checkpoint);

}  // namespace dtfm::sim
