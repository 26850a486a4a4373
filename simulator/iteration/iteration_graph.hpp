// One iteration of training as a task graph.
#pragma once

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "core/plan/virtual_stages.hpp"
#include "core/schedule/path_schedule.hpp"
#include "core/base/stop.hpp"
#include "simulator/lowering/graph_builder.hpp"

namespace dtfm::sim {

/// Returns the task graph of one iteration of `plan`, in topological order. Computations are in seconds, on
/// hosts of speed 1.
///
/// Every pipeline computes its micro-batches in the order of the schedule. A message is sent as soon as it is
/// computed; messages of one kind between one pair of devices are sent in order. The replicas of a layer
/// synchronize its gradients when all of them have finished their last backward and have sent its result to
/// the previous stage; otherwise the synchronization would delay the stages that still compute. Without
/// `iteration_barrier`, here and below, each replica begins without waiting for the others. A device
/// updates its weights when all its computations and gradient synchronizations are complete, if its optimizer
/// step takes time (StageLoad::update_s). The iteration ends with a barrier for all devices and the fixed
/// overhead; without `iteration_barrier`, the graph says when each device may begin the next one
/// (LabelledGraph::starts and ends).
///
/// With `overlap`, the last backward of every replica is computed layer by layer, and the gradient
/// synchronization of a layer begins when all replicas have its gradients.
///
/// With tensor parallelism, the devices of a stage wait for its all-reduces after every computation
/// (all_reduces_per_layer). Each device sends 1 / t of a boundary activation to the device of the same rank,
/// and a stage computes when all parts have arrived. With `sequence_parallel: false` it sends all of it,
/// unless `scatter_gather` is set (arXiv 2104.04473, section 4.1); the all-gather after receiving is not
/// modelled. Gradients are synchronized between devices of the same rank. If stages have different numbers of
/// devices, messages (unless they carry all) and gradients are cut into the parts of core/plan/shards.hpp;
/// every part of the gradients is synchronized separately, and a device that holds several parts takes part
/// in several synchronizations.
///
/// With `tied_embedding_sync`, the two copies of tied embeddings, at the ends of a pipeline, are all-reduced
/// after the replicas have synchronized theirs.
///
/// With optimizer_sharding zero1, the replicas of a layer reduce-scatter its gradients instead. Each device
/// then updates its part of the parameters, in 1 / n of the time, and when all holders of a layer have, they
/// all-gather its parameters. Plans with zero2 or zero3 are passed to zero_graph.
///
/// With `paths`, every micro-batch follows its own path over the devices of the plan (path_schedule.hpp); the
/// replicas of a layer are then the pipelines that hold it.
///
/// Throws Error for a plan that cannot be run or is too large to simulate, and WorkStopped once `stop`, which
/// is called regularly, has returned true.
LabelledGraph iteration_graph(const Problem& problem, const Plan& plan, const PathSchedule* paths = nullptr,
                              const StopFunction& stop = {});

/// The plan of an iteration after which replicas do not synchronize.
Plan without_gradient_sync(Plan plan);

/// The same iteration with far fewer tasks where pipelines do the same at the same time: only those that
/// represent the others (reduce_by_symmetry). Its tasks have the same times as their counterparts in the
/// whole graph, up to rounding, and so has the iteration.
LabelledGraph reduced_iteration_graph(const Problem& problem, const Plan& plan,
                                      const StopFunction& stop = {});

/// Number of passes (forward or backward, per micro-batch and device) in an iteration. Plans with more
/// than `max_computations` are not simulated, because they would exceed memory: with the messages between
/// stages, a computation takes up to 500 bytes of memory until the end of the simulation.
double computations_of(const Plan& plan);
inline constexpr double max_computations = 2e7;

/// Computations, and if optimizer_sharding is zero2 or zero3 those of every layer and the messages of their
/// collectives, which are most of the tasks. With other settings, messages between replicas are not counted.
double tasks_of(const Problem& problem, const Plan& plan);

/// About how many bytes the simulation of `reduced_iteration_graph`, or else of `iteration_graph`, takes at
/// its peak.
double simulation_bytes(const Problem& problem, const Plan& plan, bool is_reduced);

}  // namespace dtfm::sim
