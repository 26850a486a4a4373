#include "planner/cost/bounds/plan_bound.hpp"

#include <algorithm>
#include <limits>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/gradient_pieces.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/cost/iteration_time/sharded_training_time.hpp"

namespace dtfm::cost {
namespace {

/// One micro-batch on one stage, and over the hop to the next one.
struct StageTimes {
  double forward_s = 0, backward_s = 0, weight_gradient_s = 0;  // the last is part of the second
  double there_s = 0, back_s = 0;            // of the messages to and from the next stage, with latency
  double there_busy_s = 0, back_busy_s = 0;  // occupancy of the links
};

int device_of(const Stage& stage) {
  DTFM_ASSERT(stage.devices.size() == 1);
  return stage.devices.front();
}

ComputeTime compute(const IterationModel& model, const Stage& stage, std::pair<int, int> layers) {
  const bool is_per_stage = traits(model.problem.job.execution.recomputation).is_per_stage();
  const int recomputed = is_per_stage
                             ? std::min(stage.recompute_layers.value_or(0), layers.second - layers.first)
                             : model.stages.recomputed(layers);
  return model.stages.compute(model.stages.kind_of(device_of(stage)), layers, recomputed);
}

/// By virtual stage.
std::vector<StageTimes> stage_times(const IterationModel& model, const Pipeline& pipeline) {
  const auto layers = virtual_stage_layers(pipeline, model.chunks);
  const std::size_t stages = pipeline.stages.size();
  const double overhead_s = model.problem.constants.micro_batch_overhead_s;
  std::vector<StageTimes> result(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const ComputeTime time = compute(model, pipeline.stages[i % stages], layers[i]);
    result[i].forward_s = time.forward_s + overhead_s;
    result[i].backward_s = time.backward_s + overhead_s;
    if (traits(model.schedule).splits_backward) result[i].weight_gradient_s = time.weight_gradient_s;
    if (i + 1 == layers.size()) break;
    const int here = device_of(pipeline.stages[i % stages]),
              next = device_of(pipeline.stages[(i + 1) % stages]);
    const MessageCost forward = model.network.message(here, next),
                      backward = model.network.message(next, here);
    const double sent = model.boundary_bytes(here, next, 1, layers[i].second),
                 received = model.boundary_bytes(next, here, 1, layers[i].second);
    result[i].there_s = forward.total_s(sent);
    result[i].back_s = backward.total_s(received);
    result[i].there_busy_s = forward.occupancy_s(sent);
    result[i].back_busy_s = backward.occupancy_s(received);
  }
  return result;
}

/// Time of the stage's optimizer step for these layers alone. Parameters that are tied to the first layer of
/// the same stage are updated with that layer.
double update_s(const IterationModel& model, const Stage& stage, std::pair<int, int> layers) {
  if (stage.layers.first > 0) return compute(model, stage, layers).update_s;
  return compute(model, stage, {0, layers.second}).update_s -
         compute(model, stage, {0, layers.first}).update_s;
}

}  // namespace

/// - A device computes its micro-batches one after the other. Before that, the first one has to pass all
///   earlier stages; after that, the gradients of the last one have to go back through them.
/// - If m micro-batches pass a resource (stage or hop) one after another, the pipeline takes at least as long
///   as one micro-batch and m − 1 times the resource: under gpipe for the forward phase followed by the
///   backward phase, otherwise for one of them.
/// - Under 1f1b at most S micro-batches are between the forward pass of the S-th stage from the end and its
///   backward pass.
PipelineBound pipeline_bound(const IterationModel& model, const Pipeline& pipeline) {
  const int devices = static_cast<int>(pipeline.stages.size()), batches = pipeline.micro_batches;
  PipelineBound bound{std::vector<double>(at(devices)), 0};
  if (batches == 0) return bound;
  const std::vector<StageTimes> stages = stage_times(model, pipeline);
  const ScheduleTraits& schedule = traits(model.schedule);
  double path_s = 0, busiest_forward_s = 0, busiest_backward_s = 0;  // of one micro-batch; of resources
  for (const StageTimes& it : stages) {
    path_s += it.forward_s + it.backward_s - it.weight_gradient_s + it.there_s + it.back_s;
    busiest_forward_s = std::max({busiest_forward_s, it.forward_s, it.there_busy_s});
    busiest_backward_s = std::max({busiest_backward_s, it.backward_s - it.weight_gradient_s, it.back_busy_s});
  }
  const double steady_s = schedule.forwards_first ? busiest_forward_s + busiest_backward_s
                                                  : std::max(busiest_forward_s, busiest_backward_s);
  bound.gradients_s[0] = path_s + (batches - 1) * steady_s;
  double before_s = 0, after_s = 0, rest_s = path_s;
  for (int device = 0; device < devices; ++device) {
    double compute_s = 0, waiting_s = 0;
    for (std::size_t chunk = at(device); chunk < stages.size(); chunk += at(devices)) {
      compute_s += stages[chunk].forward_s + stages[chunk].backward_s;
      waiting_s += stages[chunk].weight_gradient_s;
    }
    const double own_s = before_s + batches * (compute_s - waiting_s);
    bound.gradients_s[at(device)] = std::max(bound.gradients_s[at(device)], own_s);
    bound.gradients_s[0] = std::max(bound.gradients_s[0], own_s + after_s);
    if (schedule.alternates)
      bound.gradients_s[0] = std::max(
          bound.gradients_s[0], before_s + rest_s * batches / std::min(batches, devices - device) + after_s);
    bound.end_s = std::max(bound.end_s, before_s + batches * compute_s);
    const StageTimes& it = stages[at(device)];
    before_s += it.forward_s + it.there_s;
    after_s += it.backward_s - it.weight_gradient_s + it.back_s;
    rest_s = path_s - before_s - after_s;
  }
  bound.end_s = std::max(bound.end_s, bound.gradients_s[0]);
  return bound;
}

double min_sync_s(const IterationModel& model, const std::vector<const Stage*>& replicas,
                  std::pair<int, int> layers) {
  double least_s = infinity, most_s = 0;  // of their updates
  const double share = model.sharding.optimizer ? 1 / static_cast<double>(replicas.size()) : 1;
  for (const Stage* stage : replicas) {
    const double seconds = update_s(model, *stage, layers) * share;
    least_s = std::min(least_s, seconds);
    most_s = std::max(most_s, seconds);
  }
  // Nearly all communication of partitioned gradients overlaps with computations. How many replicas of a site
  // partition the state of a layer depends on the other layers. The estimate of instances is no lower bound.
  const bool is_hybrid = model.sharding.optimizer && traits(model.sync).shares_by_site();
  if (replicas.size() < 2 || model.network.shared_count() > 0 || model.sharding.gradients || is_hybrid ||
      traits(model.sync).has_instances)
    return most_s;
  ReplicaGroup group;
  for (const Stage* stage : replicas) group.devices.push_back(device_of(*stage));
  group.parts.assign(replicas.size(), 1);
  const Problem& problem = model.problem;
  const bool compressed = is_compressed(problem.topology, problem.job.execution.compression, group.devices);
  group.bytes = model.stages.gradient_bytes(layers, layers.first == 0, compressed);
  const ExecutionConfig& execution = problem.job.execution;
  if (synchronizes_pieces(execution, model.sync)) group.pieces = 1;  // however large they are
  const auto time_of = [&](Collective part) {
    return gradient_sync_time(model.sync, problem.topology, model.network, {&group, 1}, part);
  };
  const bool is_scattered = model.sharding.optimizer && !traits(execution.messaging).all_reduces_shards;
  const SyncTime sync = time_of(is_scattered ? Collective::reduce_scatter : Collective::all_reduce);
  // Of interchangeable devices in hierarchical synchronization, some end earlier than others.
  if (traits(model.sync).shares_by_site()) return std::max(sync.seconds + least_s, most_s);
  double last_s = 0;
  for (std::size_t i = 0; i < replicas.size(); ++i)
    last_s = std::max(last_s, sync.ends_s[i] + update_s(model, *replicas[i], layers) * share);
  if (!model.sharding.optimizer) return last_s;
  group.bytes = model.stages.parameter_bytes(layers, layers.first == 0);
  group.pieces = 0;
  return last_s + time_of(Collective::all_gather).seconds;
}

namespace {

/// Whether a virtual stage without layers precedes that of the first layer.
bool begins_empty(const IterationModel& model, const Pipeline& pipeline) {
  const auto [begin, end] = virtual_stage_layers(pipeline, model.chunks).front();
  return begin == end;
}

/// With overlap, gradients are synchronized layer by layer, and only the first layer waits for the whole
/// pipeline.
bool synchronizes_by_layer(const IterationModel& model) {
  return model.problem.job.execution.overlap || model.chunks > 1;
}

}  // namespace

double min_first_sync_s(const IterationModel& model, const Plan& plan) {
  int end = synchronizes_by_layer(model) ? 1 : model.stages.layers();
  std::vector<const Stage*> replicas;
  for (const Pipeline& pipeline : plan.pipelines) {
    replicas.push_back(&pipeline.stages.front());
    end = std::min(end, replicas.back()->layers.second);
  }
  return min_sync_s(model, replicas, {0, end});
}

int max_micro_batches(const IterationModel& model, const Plan& plan, double limit_s) {
  constexpr int unlimited = std::numeric_limits<int>::max();
  if (!model.sharding.gradients) return unlimited;
  const ShardedTraffic traffic = min_sharded_traffic(model, plan);
  const double most = (limit_s - traffic.after_s) / traffic.per_round_s;
  return most < unlimited ? std::max(0, static_cast<int>(most)) : unlimited;
}

double min_iteration_s(const IterationModel& model, const Plan& plan,
                       const std::vector<const PipelineBound*>& pipelines) {
  const bool by_layer = synchronizes_by_layer(model);
  double end_s = 0;
  for (const PipelineBound* pipeline : pipelines) end_s = std::max(end_s, pipeline->end_s);
  const auto is_late = [&](const Pipeline& it) { return begins_empty(model, it); };
  // Then the first layer is not the last to be computed, so its synchronization may end earlier.
  if (by_layer && std::any_of(plan.pipelines.begin(), plan.pipelines.end(), is_late))
    return end_s + model.problem.constants.iteration_overhead_s;
  std::vector<std::size_t> stage(plan.pipelines.size());  // [pipeline]: that holds `layer`
  for (int layer = 0; layer < model.stages.layers();) {
    int end = by_layer ? 1 : model.stages.layers();
    double ready_s = 0;
    std::vector<const Stage*> replicas;
    for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
      const std::vector<Stage>& stages = plan.pipelines[i].stages;
      if (!by_layer) {
        while (stages[stage[i]].layers.second <= layer) ++stage[i];
        end = std::min(end, stages[stage[i]].layers.second);
      }
      replicas.push_back(&stages[stage[i]]);
      ready_s = std::max(ready_s, pipelines[i]->gradients_s[stage[i]]);
    }
    end_s = std::max(end_s, ready_s + min_sync_s(model, replicas, {layer, end}));
    if (by_layer) break;
    layer = end;
  }
  return end_s + model.problem.constants.iteration_overhead_s;
}

}  // namespace dtfm::cost
