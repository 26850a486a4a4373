// Task graph of data parallelism with partitioned model states (ZeRO).
#pragma once

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "simulator/lowering/graph_builder.hpp"

namespace dtfm::sim {

/// Returns the task graph of one iteration of `plan`, whose optimizer_sharding is zero2 or zero3. Every
/// pipeline must be a single stage with all layers on a single device. With G devices, Ψ bytes of parameters
/// and as many of gradients, each device sends (arXiv 1910.02054, section 7):
///   zero2       Ψ (G − 1) / G bytes in the reduce-scatter of gradients, and as many in the all-gather of
///               parameters after the update: 2 Ψ (G − 1) / G in an iteration of one micro-batch
///   zero3       as many in each of the all-gathers of parameters before the forward and before the backward
///               of each layer, and in the reduce-scatter of gradients: 3 Ψ (G − 1) / G per micro-batch
/// Everything except the all-gather after the update is repeated for every micro-batch, because no device has
/// the memory to keep the gradients (and parameters) of other devices until the last micro-batch.
///
/// With gradient_sync sharded-ps, every device sends a part to every other one directly. With ring,
/// collectives use rings of the devices in the order of the pipelines (parallel_rings), in G − 1 steps; all
/// rings run their steps synchronously. With hierarchical, the devices of a site use such rings, and devices
/// with the same part all-reduce it across sites in a ring.
/// A message is sent when both its sender and its receiver have reached the collective. While one layer is
/// computed, the parameters of the next are gathered and the gradients of the previous one are scattered.
/// Devices with fewer micro-batches than others still take part in all collectives. Each device updates its
/// part of the parameters when its computations and the reduce-scatters of gradients are complete.
///
/// Throws Error for plans of other shapes, and for plans with more messages than can be simulated, and
/// WorkStopped.
LabelledGraph zero_graph(const Problem& problem, const Plan& plan, const StopFunction& stop = {});
/// Number of messages in that graph.
double zero_graph_messages(const Problem& problem, const Plan& plan);

}  // namespace dtfm::sim
