// Finds interchangeable pipelines of a plan, so that a task graph needs only some of them.
#pragma once

#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"
#include "simulator/lowering/device_symmetry.hpp"

namespace dtfm::sim {

/// The pipelines that represent all others, in the order of the plan, and what their devices represent.
struct SymmetricPlan {
  Plan plan;
  DeviceSymmetry symmetry;
};

/// Pipelines that share a host form a block. Blocks are interchangeable if they have the same micro-batches,
/// stages, sites, kinds of devices and links, host by host, and the same role in gradient synchronization:
/// with `central-ps` the first block is a class of its own, and with `hierarchical` the devices of a ring
/// across sites belong to one block.
///
/// Exchanging two such blocks maps the tasks, links and capacities of the plan to themselves. Max-min fair
/// rates are unique, so all blocks of a class then have the same times. Nothing is reduced if links are
/// measured, because they differ from pair to pair, nor with algorithms whose messages depend on the order of
/// the devices (`ring`, `tree`, zero2, zero3), nor with `hierarchical` and zero1.
///
/// `plan` is a result of expand_virtual_stages.
SymmetricPlan reduce_by_symmetry(const Topology& topology, const Plan& plan);

}  // namespace dtfm::sim
