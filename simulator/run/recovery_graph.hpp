// Machines that take a place, or come back to one, fetch what they have to know.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

/// The weights and optimizer state of some layers of a stage, for one device.
struct Fetch {
  int to = 0, pipeline = 0, stage = 0;
  int part = 0, parts = 1;  // of all shards (planner/core/shards.hpp)
  std::pair<int, int> layers = {0, 0};
  std::optional<int> from = {};  // a device; nothing: the checkpoint
  double bytes = 0;
};

/// Weights and optimizer state on one device: its shard of a stage's layers.
struct StageShard {
  int device = 0, pipeline = 0, stage = 0;
  int rank = 0;              // of the device
  std::vector<int> devices;  // of the stage: as many shards
  std::pair<int, int> layers = {0, 0};
};

/// Of the devices of `running` pipelines. `computed` has the stages that are computed, see `expand_virtual_stages`.
std::vector<StageShard> stage_shards(const Plan& computed, const std::vector<bool>& running);

/// What the devices of the next stages hold beside their places, where every stage of `home` has a copy on
/// the devices of the one after it, the last one on those of the first: of `running` pipelines and devices
/// that are `there`, but for those that compute the stage themselves in `computed`, the plan as it is.
std::vector<StageShard> redundant_shards(const Plan& computed, const Plan& initial_plan, const std::vector<bool>& running,
                             const std::vector<bool>& available);

/// What devices lack of the places that are `wanted`: every layer from a device that has the same part of it
/// in a place that is `held`, in any pipeline. Among several, where it would be there first if every device
/// sent its fetches one after the other, by latency and bandwidth of the pair alone; among equals the first
/// device. `plan`: of the tensor degrees of what is wanted.
std::vector<Fetch> plan_fetches(const Problem& problem, const Plan& plan, const std::vector<StageShard>& wanted,
                              const std::vector<StageShard>& held);

/// All fetches at once, over the network; from the checkpoint as `Checkpoint` says, those of a device one
/// after the other. Every fetch that has no device to come from needs a checkpoint.
LabelledGraph recovery_graph(const Problem& problem, const std::vector<Fetch>& fetches,
                             const std::optional<Checkpoint>& checkpoint);

/// Every device of `pipeline`, whose stages are the computed ones, writes weights and optimizer state of its
/// stages into the checkpoint, over the path that it would read them by. `number`: of the pipeline, for
/// labels.
LabelledGraph checkpoint_graph(const Problem& problem, const Plan& plan, const Pipeline& pipeline, int number,
                               const Checkpoint& checkpoint);

}  // namespace dtfm::sim
