// A lower bound on the iteration time that distinguishes pipelines inside a site from those across sites.
#pragma once

#include <vector>

#include "planner/cost/bounds/bound_inputs.hpp"

namespace dtfm::cost {

/// Whether the devices are in several sites, or several hosts of one site, few enough for the bound, and the
/// job synchronizes gradients with all replicas after the last backward pass.
bool can_group_devices(const BoundInputs& inputs);

/// Least seconds in which pipelines that are each inside one group of devices, or across groups, may finish,
/// without the iteration overhead. `least_s`: what other bounds prove, by the number of pipelines with
/// micro-batches minus 1. 0 if it is stopped.
double device_group_bound_s(const BoundInputs& inputs, const PlanLimits& limits,
                            std::vector<double>& least_s);

}  // namespace dtfm::cost
