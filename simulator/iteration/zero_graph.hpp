// Data parallelism with partitioned model states as a task graph.
#pragma once

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "simulator/lowering/graph_builder.hpp"

namespace dtfm::sim {

/// One iteration of `plan`, whose gradient_sync names a ZeroStage and whose pipelines are single stages of
/// single devices with all layers. With G devices and Ψ bytes of parameters, and as many of gradients, a
/// device sends for a micro-batch (arXiv 1910.02054, section 7):
///   gradients   Ψ (G − 1) / G of gradients, reduce-scattered; and once, after the update, as much of
///               parameters, gathered: 2 Ψ (G − 1) / G
///   parameters  they are gathered layer by layer before the forward, and again before the backward:
///               3 Ψ (G − 1) / G
/// All but the gather after the update come again with every micro-batch of an iteration, for nobody has room
/// for the gradients (and parameters) of others until the last one.
///
/// Collectives go around a ring of the devices in the order of the pipelines, in G − 1 steps; where all hosts
/// have g devices, next to each other in that order, around g rings with 1 / g of the bytes, which leave
/// hosts through one device each, as NCCL's do. All rings are in step. A message is sent when both its ends
/// have come to the collective. The parameters of the next layer are gathered while one is computed,
/// gradients are scattered meanwhile. Devices with fewer micro-batches than others take part in what is
/// exchanged. Each updates its part of the parameters when it has computed and exchanged all.
///
/// Throws Error for plans of other shapes, and of more messages than can be simulated.
LabelledGraph zero_graph(const Problem& problem, const Plan& plan);

}  // namespace dtfm::sim
