// What one change to the network, the devices or the job would make of a plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

enum class Change {
  link_doubled,           // between two sites, or inside one: bandwidth and capacity, both directions
  access_doubled,         // of a site: its uplink and downlink, and those of its hosts and devices
  pipeline_removed,       // as it has to be without one of its devices; the others get its micro-batches
  pipeline_added,         // on devices that the plan does not use; it gets its share of the micro-batches
  activations_halved,     // bytes sent
  activations_quartered,  //
  gradients_halved,       //
  gradients_quartered,    //
  micro_batch_doubled     // of the same sequences: half as many micro-batches
};

struct WhatIf {
  Change change = Change::link_doubled;
  int first = -1, second = -1;  // link: the sites; access: the site; pipeline: its number, or that of which
                                // the new one is a copy
  std::vector<int> devices;     // of the pipeline removed or added
  double iteration_s = 0;
  double gain = 0;         // of the iteration's time; below 0: it takes longer
  double deficit_bytes = 0;      // bytes of memory; 0: it fits
  std::string impossible;  // why there is no estimate; empty: there is one
};

/// A plan, and the problem that it is of.
struct PlannedProblem {
  Problem problem;
  Plan plan;
  int flush = 0;  // 0: once an iteration
};

/// What the change makes of the plan, whose layers stay where they are. Of `what`, all that is not a result
/// is read. `network`: of the topology as it is. Throws Error where the change is not possible.
PlannedProblem apply_change(const PlannedProblem& planned, const WhatIf& what,
                       const std::shared_ptr<const NetworkCost>& network);

/// Each one estimated: of the links, at most the 32 that carry most; of the pipelines that may be removed or
/// added, the best one. First those that fit the memory, by gain; what is not possible comes last.
std::vector<WhatIf> what_ifs(const PlannedProblem& planned, const std::shared_ptr<const NetworkCost>& network,
                             int threads);

}  // namespace dtfm::cost
