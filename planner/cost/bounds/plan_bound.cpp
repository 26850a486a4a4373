#include "planner/cost/bounds/plan_bound.hpp"

#include <algorithm>

#include "planner/core/index.hpp"
#include "planner/core/virtual_stages.hpp"

namespace dtfm::cost {
namespace {

/// One micro-batch on one stage, and over the hop to the next one.
struct StageTimes {
  double forward_s = 0, backward_s = 0, weight_gradient_s = 0;  // the last is part of the second
  double there_s = 0, back_s = 0;            // of the messages to and from the next stage, with latency
  double there_busy_s = 0, back_busy_s = 0;  // occupancy of the links
};

ComputeTime slowest_compute(const StageCosts& costs, const std::vector<int>& devices,
                            std::pair<int, int> layers) {
  ComputeTime slowest;
  for (const int device : devices) {
    const ComputeTime time = costs.compute(costs.kind_of(device), layers);
    slowest.forward_s = std::max(slowest.forward_s, time.forward_s);
    slowest.backward_s = std::max(slowest.backward_s, time.backward_s);
    slowest.weight_gradient_s = std::max(slowest.weight_gradient_s, time.weight_gradient_s);
    slowest.update_s = std::max(slowest.update_s, time.update_s);
  }
  return slowest;
}

void add_hop(const IterationModel& model, StageTimes& times, const std::vector<int>& from,
             const std::vector<int>& to, int layer) {
  const int parts = static_cast<int>(from.size());
  for (std::size_t rank = 0; rank < from.size(); ++rank) {
    const int here = from[rank], there = to[rank];
    const MessageCost forward = model.network.message(here, there),
                      backward = model.network.message(there, here);
    const double sent = model.boundary_bytes(here, there, parts, layer),
                 received = model.boundary_bytes(there, here, parts, layer);
    times.there_s = std::max(times.there_s, forward.total_s(sent));
    times.back_s = std::max(times.back_s, backward.total_s(received));
    times.there_busy_s = std::max(times.there_busy_s, forward.occupancy_s(sent));
    times.back_busy_s = std::max(times.back_busy_s, backward.occupancy_s(received));
  }
}

/// By virtual stage.
std::vector<StageTimes> stage_times(const IterationModel& model, const Pipeline& pipeline) {
  const auto layers = virtual_stage_layers(pipeline, model.chunks);
  const std::size_t stages = pipeline.stages.size();
  const double overhead_s = model.problem.constants.micro_batch_overhead_s;
  std::vector<StageTimes> result(layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::vector<int>& devices = pipeline.stages[i % stages].devices;
    const ComputeTime time = slowest_compute(model.stages_of(devices.size()), devices, layers[i]);
    result[i].forward_s = time.forward_s + overhead_s;
    result[i].backward_s = time.backward_s + overhead_s;
    if (traits(model.schedule).splits_backward) result[i].weight_gradient_s = time.weight_gradient_s;
    if (i + 1 < layers.size())
      add_hop(model, result[i], devices, pipeline.stages[(i + 1) % stages].devices, layers[i].second);
  }
  return result;
}

}  // namespace

/// - A device computes its micro-batches one after the other: after the first has come from the stages before
///   it, and before the gradients of the last have gone back through them.
/// - If m micro-batches pass a resource (stage or hop) one after another, the pipeline takes at least the
/// time
///   of one micro-batch and m − 1 times that of the resource: under gpipe for the forward phase followed by
///   the backward phase, otherwise for one of them.
/// - Under 1f1b at most S micro-batches are between the forward pass of the S-th stage from the end and its
///   backward pass.
PipelineBound pipeline_bound(const IterationModel& model, const Pipeline& pipeline) {
  const int devices = static_cast<int>(pipeline.stages.size()), batches = pipeline.micro_batches;
  PipelineBound bound{std::vector<double>(at(devices)), 0};
  if (batches == 0) return bound;
  const std::vector<StageTimes> stages = stage_times(model, pipeline);
  const ScheduleTraits& schedule = traits(model.schedule);
  const bool limits_in_flight =
      model.schedule == Schedule::one_f_one_b || model.schedule == Schedule::one_f_one_b_blocking;
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
    if (limits_in_flight)
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

double min_sync_s(const IterationModel& model, const std::vector<std::vector<int>>& holders,
                  std::pair<int, int> layers) {
  const StageCosts& costs = model.stages_of(holders.front().size());
  double last_s = 0;
  std::vector<double> update_s;
  for (const std::vector<int>& devices : holders) {
    update_s.push_back(slowest_compute(costs, devices, layers).update_s);
    last_s = std::max(last_s, update_s.back());
  }
  if (holders.size() < 2 || model.network.shared_count() > 0) return last_s;
  GradientSyncTime sync_time(model.problem.topology, model.network);
  for (std::size_t rank = 0; rank < holders.front().size(); ++rank) {
    std::vector<int> replicas;
    for (const std::vector<int>& devices : holders) replicas.push_back(devices[rank]);
    const Problem& problem = model.problem;
    const bool compressed = is_compressed(problem.topology, problem.job.execution.compression, replicas);
    const std::vector<double> done_s = sync_time.completion_times(
        model.sync, replicas, costs.gradient_bytes(layers, layers.first == 0, compressed));
    for (std::size_t i = 0; i < done_s.size(); ++i) last_s = std::max(last_s, done_s[i] + update_s[i]);
  }
  return last_s;
}

namespace {

/// With overlap, gradients are synchronized layer by layer, and only the first layer waits for the whole
/// pipeline.
bool synchronizes_by_layer(const IterationModel& model) {
  return model.problem.job.execution.overlap || model.chunks > 1;
}

}  // namespace

double min_first_sync_s(const IterationModel& model, const Plan& plan) {
  int end = synchronizes_by_layer(model) ? 1 : model.stages.layers();
  std::vector<std::vector<int>> holders;
  for (const Pipeline& pipeline : plan.pipelines) {
    end = std::min(end, pipeline.stages.front().layers.second);
    holders.push_back(pipeline.stages.front().devices);
  }
  return min_sync_s(model, holders, {0, end});
}

double min_iteration_s(const IterationModel& model, const Plan& plan,
                       const std::vector<const PipelineBound*>& pipelines) {
  const bool by_layer = synchronizes_by_layer(model);
  double end_s = 0;
  for (const PipelineBound* pipeline : pipelines) end_s = std::max(end_s, pipeline->end_s);
  std::vector<std::size_t> stage(plan.pipelines.size());  // [pipeline]: that holds `layer`
  for (int layer = 0; layer < model.stages.layers();) {
    int end = by_layer ? 1 : model.stages.layers();
    double ready_s = 0;
    std::vector<std::vector<int>> holders;
    for (std::size_t i = 0; i < plan.pipelines.size(); ++i) {
      const std::vector<Stage>& stages = plan.pipelines[i].stages;
      if (!by_layer) {
        while (stages[stage[i]].layers.second <= layer) ++stage[i];
        end = std::min(end, stages[stage[i]].layers.second);
      }
      holders.push_back(stages[stage[i]].devices);
      ready_s = std::max(ready_s, pipelines[i]->gradients_s[stage[i]]);
    }
    end_s = std::max(end_s, ready_s + min_sync_s(model, holders, {layer, end}));
    if (by_layer) break;
    layer = end;
  }
  return end_s + model.problem.constants.iteration_overhead_s;
}

}  // namespace dtfm::cost
