// Plans in which every pipeline has the same stages.
#pragma once

#include <string>

#include "core/cluster/topology.hpp"
#include "core/plan/plan.hpp"

namespace dtfm {

/// The plan as a balanced placement, which objective comm-cost requires. Throws Error naming `file` for
/// pipelines of unequal depth or with different stages, tensor parallelism, and unused devices.
Placement balanced_placement(const Plan& plan, const Topology& topology, const std::string& file);

}  // namespace dtfm
