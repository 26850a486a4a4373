// Machines that take a place, or come back to one, fetch what they have to know.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "simulator/lowering/iteration_graph.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm {

/// The weights and optimizer state of some layers of a stage, for one device.
struct Fetch {
  int to = 0, pipeline = 0, stage = 0;
  int part = 0, parts = 1;  // of all shards (planner/core/shards.hpp)
  std::pair<int, int> layers = {0, 0};
  std::optional<int> from = {};  // a device; nothing: the checkpoint
  double bytes = 0;
};

/// What the devices of `running` pipelines that are not `fresh` (which hold the weights of the last completed
/// iteration) fetch: every layer from a fresh device that holds the same part of it, in any pipeline.
/// Among several, where it would be there first if every device sent its fetches one after the other, by
/// latency and bandwidth of the pair alone; among equals the first device. `computed` has the stages that are
/// computed, see `computed_stages`.
std::vector<Fetch> fetches_of(const Problem& problem, const Plan& computed, const std::vector<bool>& running,
                              const std::vector<bool>& fresh);

/// All fetches at once, over the network; from the checkpoint as `Checkpoint` says, those of a device one
/// after the other. Every fetch that has no device to come from needs a checkpoint.
LabelledGraph recovery_graph(const Problem& problem, const std::vector<Fetch>& fetches,
                             const std::optional<Checkpoint>& checkpoint);

}  // namespace dtfm
