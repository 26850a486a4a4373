// Estimates how single changes to the network, the devices or the job would affect a plan.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/work.hpp"
#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

enum class Change {
  link_doubled,           // bandwidth and capacity between two sites or within one, both directions
  access_doubled,         // uplink and downlink of a site, of its hosts and of its devices
  pipeline_removed,       // as if one of its devices failed; the other pipelines take over its micro-batches
  pipeline_added,         // on unused devices, with its share of the micro-batches
  activations_halved,     // bytes sent of activations and their gradients
  activations_quartered,  // bytes sent of activations and their gradients
  gradients_halved,       // bytes sent in gradient synchronization
  gradients_quartered,    // bytes sent in gradient synchronization
  micro_batch_doubled     // same sequences in half as many micro-batches
};
std::string_view name_of(Change change);

struct WhatIf {
  Change change = Change::link_doubled;
  /// Link: the two sites; access: the site; pipeline: the one removed, or the one that the new one copies.
  int first = -1, second = -1;
  std::vector<int> devices;  // of the pipeline removed or added
  double iteration_s = 0;
  double gain = 0;           // share of the iteration time saved; negative if it becomes longer
  double deficit_bytes = 0;  // by which devices exceed their memory, summed; 0: the plan fits
  std::string impossible;    // reason why the change is impossible; empty if it is possible
};

/// A plan with the problem that it solves, whose job has the execution of the plan.
struct PlannedProblem {
  Problem problem;
  Plan plan;
};

/// Returns the plan and its problem after the change; layers stay on their stages. Reads only the inputs in
/// `what` (change, first, second, devices). `network` must belong to the unchanged topology. Throws Error if
/// the change is impossible.
PlannedProblem apply_change(const PlannedProblem& planned, const WhatIf& what,
                            const std::shared_ptr<const NetworkCost>& network);

/// Estimates every change: for links, the up to 32 that are busiest; for removing and for adding a pipeline,
/// only the best. Changes that fit in memory come first, by gain; impossible ones last. Throws WorkStopped.
std::vector<WhatIf> what_ifs(const PlannedProblem& planned, const std::shared_ptr<const NetworkCost>& network,
                             const Work& work);

/// Pairs of sites (a, b), a ≤ b, ordered by how long the plan sends over the links between them, longest
/// first. At most 32.
std::vector<std::pair<int, int>> used_links(const IterationModel& model, const Plan& plan);

}  // namespace dtfm::cost
