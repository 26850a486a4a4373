// One iteration of training as a task graph.
#pragma once

#include "planner/core/plan.hpp"
#include "planner/core/problem.hpp"
#include "planner/core/schedule/path_schedule.hpp"
#include "simulator/lowering/graph_builder.hpp"

namespace dtfm::sim {

/// Every pipeline computes its micro-batches in the order of the schedule; a message is sent as soon as it is
/// there, those of one kind between one pair of devices in order; the replicas of every layer exchange its
/// gradients when all of them have done their last backward and have sent on what it says to the stage before
/// (else the exchange would hold up the stages that still compute). A device updates its weights when it has
/// computed and exchanged everything, if its optimizer's step takes time there (StageLoad::update_s); the
/// iteration ends with the step of all: a wait for all, and the fixed overhead.
/// Tasks come after all that they wait for. Computations are in seconds, on hosts of speed 1.
///
/// With `overlap`, the last backward of every replica is computed layer by layer, and the exchange of a layer
/// begins when all replicas have its gradients.
///
/// With tensor parallelism, the devices of a stage wait for its all-reduces after every computation
/// (StageAllReduces). Of a message between stages each sends its share, 1 / t of the bytes, to the device of
/// the same rank, and computes when all shares are there. Megatron-LM does so too (scatter/gather, arXiv
/// 2104.04473, section 4.1), but then gathers the whole message inside the stage; with sequence parallelism,
/// which the loads of devices suppose (all memory divided by t), there is nothing to gather. Gradients are
/// exchanged between the devices of the same rank. Where stages have different numbers of devices, messages
/// and gradients are cut into the parts of planner/core/shards.hpp; every part of the gradients is exchanged
/// by itself, and a device that holds several takes part in several exchanges.
///
/// The two copies of tied embeddings, at the ends of a pipeline, are not exchanged with each other.
///
/// Plans whose gradient_sync names a ZeroStage are those of zero_graph.hpp.
///
/// With `paths`, micro-batches go their own ways over the devices of the plan (path_schedule.hpp); the
/// replicas of a layer are then the pipelines that have it.
///
/// Throws Error for what cannot be run.
LabelledGraph iteration_graph(const Problem& problem, const Plan& plan, const PathSchedule* paths = nullptr);

/// The stages that are computed, which labels refer to: those of the plan, or for schedule `interleaved` the
/// stages that it deals out. A plan gives every device its number of layers; they are cut into `chunks`
/// parts, and part c of device d of p is stage c · p + d.
Plan expand_virtual_stages(const Job& job, const Plan& plan);

}  // namespace dtfm::sim
