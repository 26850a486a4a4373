#include "simulator/iteration/iteration_graph.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/sharing_replicas.hpp"
#include "core/plan/virtual_stages.hpp"
#include "simulator/iteration/path_graph.hpp"
#include "simulator/iteration/pipeline_graph.hpp"
#include "simulator/iteration/plan_symmetry.hpp"
#include "simulator/iteration/zero_graph.hpp"
#include "simulator/lowering/gradient_sync.hpp"

namespace dtfm::sim {
namespace {

/// Gradients that are synchronized together: one part of consecutive layers, held by the same devices.
struct LayerGroup {
  std::pair<int, int> layers;
  int part = 0, parts = 1;
  std::vector<int> pipelines;       // those that have the layers
  std::vector<int> holders;         // the device of each of these pipelines that holds the part
  bool shares_first_layer = false;  // the holders also hold the first layer
  int label = no_index;             // the part, if a device may hold several
};

class IterationGraph {
 public:
  /// `replicas`: those that partition the state of every layer, also if `plan` is reduced.
  IterationGraph(const Problem& problem, const Plan& plan, int replicas, const PathSchedule* paths,
                 const StopFunction& stop, DeviceSymmetry symmetry = {})
      : job_(problem.job),
        plan_(plan),
        paths_(paths),
        model_(problem, plan),
        builder_(problem.topology, problem.constants, std::move(symmetry)),
        overhead_(problem.constants.iteration_overhead_s),
        has_barrier_(plan.execution.iteration_barrier || paths),
        is_sharded_(traits(plan.execution.optimizer_sharding).optimizer),
        replicas_(replicas) {
    builder_.set_stop(stop);
  }

  LabelledGraph build() {
    builder_.reserve(estimate_task_count());
    if (paths_) ends_ = add_paths(builder_, model_, plan_, *paths_);
    for (int number = 0; number < static_cast<int>(plan_.pipelines.size()); ++number) {
      if (!paths_) ends_.push_back(add_pipeline(builder_, model_, job_, plan_, number));
      add_pipeline_ends(number);
    }
    if (traits(plan_.execution.gradient_sync).messages) add_group_syncs();
    if (plan_.execution.tied_embedding_sync) add_tied_sync();
    await_pending();
    add_updates();
    for (const LayerGroup& group : scattered_) add_all_gather(group);
    await_pending();
    add_end();
    return builder_.take();
  }

 private:
  std::size_t estimate_task_count() const {
    std::size_t sum = 0;
    for (const Pipeline& pipeline : plan_.pipelines)
      for (const Stage& stage : pipeline.stages) {
        const std::size_t tensor = stage.devices.size();
        const std::size_t tasks_per_micro_batch =
            tensor == 1 ? 4 : 6 * (tensor + 1);  // with all-reduces and joins
        sum += tasks_per_micro_batch * at(pipeline.micro_batches);
      }
    return sum + 1000;
  }

  void add_pipeline_ends(int number) {
    const std::vector<Stage>& stages = plan_.pipelines[at(number)].stages;
    const std::vector<std::vector<int>>& last = ends_[at(number)].last;
    for (std::size_t stage = 0; stage < last.size(); ++stage)
      for (std::size_t rank = 0; rank < last[stage].size(); ++rank)
        last_[stages[stage].devices[rank]].push_back(last[stage][rank]);
  }

  /// Whatever is added next waits for the pending tasks of its device.
  void await_pending() {
    for (const auto& [device, task] : pending_) last_[device].push_back(task);
    pending_.clear();
  }

  /// Adds the fixed overhead: with a barrier once, after all devices; without one for each device. The last
  /// task is the end of the iteration.
  void add_end() {
    TaskLabel step;
    step.activity = Activity::step;
    std::vector<int> ends;
    for (const auto& [device, tasks] : last_) {
      step.device = device;
      if (has_barrier_)
        ends.insert(ends.end(), tasks.begin(), tasks.end());
      else
        ends.push_back(builder_.end(device, overhead_, tasks, step));
    }
    step.device = no_index;
    builder_.wait(has_barrier_ ? overhead_ : 0, ends, step);
  }

  /// Adds the optimizer steps that take time: one per device, for all of its layers together, or for its part
  /// of them.
  void add_updates() {
    std::map<int, double> seconds;
    for (const Pipeline& pipeline : plan_.pipelines)
      for (const Stage& stage : pipeline.stages)
        for (const int device : stage.devices) seconds[device] += model_.of(stage).update_s;
    TaskLabel label;
    label.activity = Activity::update;
    for (const auto& [device, update_s] : seconds) {
      if (update_s == 0) continue;
      std::vector<int>& last = last_[device];
      last = {builder_.compute(device, update_s / replicas_, last, label)};
    }
  }

  /// Of hierarchical synchronization, per site.
  int shards() const { return is_sharded_ ? replicas_ : 0; }

  /// Returns, for each holder, the task after which it takes part in a synchronization. `ready`: for each
  /// holder, the tasks after which its data are ready. With a barrier, all holders begin together, as the
  /// estimate and the bounds assume. Without one, each begins when its own data are ready.
  std::vector<int> sync_starts(const std::vector<int>& holders, const std::vector<std::vector<int>>& ready,
                               TaskLabel label) {
    if (has_barrier_) {
      std::vector<int> all;
      for (const std::vector<int>& own : ready) all.insert(all.end(), own.begin(), own.end());
      return std::vector<int>(holders.size(), builder_.wait(0, all, label));
    }
    std::vector<int> starts;
    label.pipeline = no_index;  // with it, the name would not contain the device
    for (std::size_t i = 0; i < holders.size(); ++i) {
      label.device = holders[i];
      starts.push_back(builder_.join(ready[i], label));
    }
    return starts;
  }

  /// Returns, for each device of the group, the task after which it has the result. Without a barrier, a
  /// device also waits until its messages have arrived.
  std::vector<int> add_sync(GradientSync sync, const SyncGroup& group) {
    const LabelledGraph& result = builder_.result();
    const std::size_t first = result.graph.tasks.size();
    std::vector<int> ends = add_gradient_sync(builder_, sync, group);
    if (has_barrier_) return ends;
    for (std::size_t task = first; task < result.graph.tasks.size(); ++task)
      if (result.graph.tasks[task].kind == TaskKind::flow)
        pending_.push_back({result.labels[task].device, static_cast<int>(task)});
    return ends;
  }

  /// All-gathers the parameters of layers whose gradients have been reduce-scattered and updated.
  void add_all_gather(const LayerGroup& group) {
    std::vector<std::vector<int>> updated;
    for (const int holder : group.holders) updated.push_back(last_[holder]);
    double bytes = 0;
    for (int layer = group.layers.first; layer < group.layers.second; ++layer)
      bytes += model_.gathered_parameter_bytes(layer, group.shares_first_layer);
    TaskLabel start;
    start.layer = group.layers.first;
    if (group.parts > 1) start.rank = group.part;
    start.phase = 2 * static_cast<int>(group.holders.size());  // no algorithm has so many
    const SyncGroup sync_group{
        group.holders,      bytes / group.parts, sync_starts(group.holders, updated, start),
        group.layers.first, group.label,         {Collective::all_gather, shards()}};
    const std::vector<int> ends = add_sync(plan_.execution.gradient_sync, sync_group);
    for (std::size_t i = 0; i < ends.size(); ++i) pending_.push_back({group.holders[i], ends[i]});
  }

  /// Returns the stages that hold the layer, and the pipeline of each.
  std::pair<std::vector<const Stage*>, std::vector<int>> stages_with(int layer) const {
    std::vector<const Stage*> stages;
    std::vector<int> pipelines;
    for (int i = 0; at(i) < plan_.pipelines.size(); ++i)
      for (const Stage& stage : plan_.pipelines[at(i)].stages)
        if (stage.layers.first <= layer && layer < stage.layers.second) {
          stages.push_back(&stage);
          pipelines.push_back(i);
        }
    DTFM_ASSERT(paths_ ? !stages.empty() : stages.size() == plan_.pipelines.size());
    return {std::move(stages), std::move(pipelines)};
  }

  /// Returns the parts of a layer's gradients, as many as the largest stage that holds it has devices.
  std::vector<LayerGroup> parts_of(int layer) const {
    const auto [stages, pipelines] = stages_with(layer);
    std::size_t parts = 1, min_degree = stages.front()->devices.size();
    for (const Stage* stage : stages) {
      parts = std::max(parts, stage->devices.size());
      min_degree = std::min(min_degree, stage->devices.size());
    }
    std::vector<LayerGroup> result(parts);
    for (std::size_t part = 0; part < parts; ++part) {
      LayerGroup& it = result[part];
      it.layers = {layer, layer + 1};
      it.part = static_cast<int>(part);
      it.parts = static_cast<int>(parts);
      for (const Stage* stage : stages)
        it.holders.push_back(device_of_part(stage->devices, it.part, it.parts));
      it.pipelines = pipelines;
      if (min_degree < parts) it.label = it.part;
    }
    return result;
  }

  /// Returns all groups, ordered by part, later layers first. Neighbouring layers with the same holders form
  /// one group, unless `overlap` requires that every layer is synchronized separately.
  std::vector<LayerGroup> groups() const {
    const std::vector<LayerGroup> first = parts_of(0);
    std::vector<std::vector<LayerGroup>> by_part;
    for (int layer = 0; layer < model_.layers(); ++layer)
      for (LayerGroup& it : parts_of(layer)) {
        it.shares_first_layer = it.parts == first.front().parts && it.holders == first[at(it.part)].holders;
        if (at(it.part) == by_part.size()) by_part.emplace_back();
        std::vector<LayerGroup>& before = by_part[at(it.part)];
        if (!before.empty() && !plan_.execution.overlap && before.back().layers.second == layer &&
            before.back().parts == it.parts && before.back().holders == it.holders)
          ++before.back().layers.second;
        else
          before.push_back(std::move(it));
      }
    std::vector<LayerGroup> groups;
    for (const auto& of_part : by_part) groups.insert(groups.end(), of_part.rbegin(), of_part.rend());
    return groups;
  }

  double bytes_of(const LayerGroup& group, bool compressed) const {
    double bytes = 0;
    for (int layer = group.layers.first; layer < group.layers.second; ++layer)
      bytes += model_.gradient_bytes(layer, group.shares_first_layer, compressed);
    return bytes / group.parts;
  }

  /// Compresses (phase 0) or decompresses (phase 1) the gradients on one device. Returns `after` if that
  /// takes no time.
  int add_compression(const LayerGroup& group, std::size_t holder, double seconds, int phase, int after) {
    if (seconds == 0) return after;
    TaskLabel label;
    label.activity = Activity::compress;
    label.layer = group.layers.first;
    label.rank = group.label;
    label.phase = phase;
    return builder_.compute(group.holders[holder], seconds, std::array{after}, label);
  }

  bool is_compressed(const LayerGroup& group) const {
    std::vector<int> devices = group.holders;
    for (const int device : group.holders)
      if (const int twin = builder_.symmetry().twin_of(device); twin != no_index) devices.push_back(twin);
    return model_.is_compressed(devices);
  }

  void add_group_syncs() {
    const std::vector<LayerGroup> all = groups();
    std::map<std::vector<int>, int> counts;  // groups by holders
    for (const LayerGroup& group : all) ++counts[group.holders];
    for (const LayerGroup& group : all)
      if (builder_.symmetry().represented(group.holders) > 1)
        add_group_sync(group, plan_.execution.overlap && counts[group.holders] > 1);
  }

  void add_group_sync(const LayerGroup& group, bool overlaps) {
    const bool compressed = is_compressed(group);
    const double bytes = bytes_of(group, compressed);
    const double compression_s = compressed ? model_.gradient_compression_s(bytes) : 0;
    TaskLabel start;
    start.layer = group.layers.first;
    if (group.parts > 1) start.rank = group.part;
    std::vector<std::vector<int>> ready;
    for (std::size_t i = 0; i < group.holders.size(); ++i) {
      // Backward computes the first layer of a group last, so its gradients are the last to be ready.
      const std::vector<int>& by_rank = ends_[at(group.pipelines[i])].gradients[at(group.layers.first)];
      const int rank = rank_of_part(group.part, group.parts, static_cast<int>(by_rank.size()));
      ready.push_back({add_compression(group, i, compression_s, 0, by_rank[at(rank)])});
    }
    const SyncGroup sync_group{group.holders,
                               bytes,
                               sync_starts(group.holders, ready, start),
                               group.layers.first,
                               group.label,
                               {is_sharded_ ? Collective::reduce_scatter : Collective::all_reduce, shards()},
                               overlaps};
    const std::vector<int> ends = add_sync(plan_.execution.gradient_sync, sync_group);
    if (is_sharded_) scattered_.push_back(group);
    const double decompression_s = compression_s / replicas_;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const int end = add_compression(group, i, decompression_s, 1, ends[i]);
      last_[group.holders[i]].push_back(end);
      for (int layer = group.layers.first; layer < group.layers.second; ++layer)
        if (is_tied(layer)) synchronized_[{group.pipelines[i], layer, group.holders[i]}].push_back(end);
    }
  }

  /// Whether other layers share parameters with this one.
  bool is_tied(int layer) const { return layer == 0 || model_.tied_gradient_bytes(layer) > 0; }

  const Stage& stage_of(int pipeline, int layer) const {
    const std::vector<Stage>& stages = plan_.pipelines[at(pipeline)].stages;
    return *std::find_if(stages.begin(), stages.end(),
                         [&](const Stage& stage) { return layer < stage.layers.second; });
  }

  /// In every pipeline, all-reduces the gradients of what a layer shares with the first one, if they are in
  /// different stages.
  void add_tied_sync() {
    for (int layer = 1; layer < model_.layers(); ++layer)
      for (int pipeline = 0; is_tied(layer) && at(pipeline) < plan_.pipelines.size(); ++pipeline) {
        const std::vector<int>&first = stage_of(pipeline, 0).devices,
              &last = stage_of(pipeline, layer).devices;
        if (first != last) add_tied_sync(pipeline, layer, first, last);
      }
  }

  void add_tied_sync(int pipeline, int layer, const std::vector<int>& first, const std::vector<int>& last) {
    const int parts = parts_between(first, last);
    for (int part = 0; part < parts; ++part) {
      const std::vector<int> holders = {device_of_part(first, part, parts),
                                        device_of_part(last, part, parts)};
      std::vector<std::vector<int>> ready;
      for (const auto& [of_layer, holder] : {std::pair(0, holders[0]), std::pair(layer, holders[1])}) {
        std::vector<int>& own = ready.emplace_back(synchronized_[{pipeline, of_layer, holder}]);
        const std::vector<int>& by_rank = ends_[at(pipeline)].gradients[at(of_layer)];
        own.push_back(by_rank[at(rank_of_part(part, parts, static_cast<int>(by_rank.size())))]);
      }
      TaskLabel start;
      start.layer = layer;
      start.pipeline = pipeline;
      if (parts > 1) start.rank = part;
      const SyncGroup group{holders, model_.tied_gradient_bytes(layer) / parts,
                            sync_starts(holders, ready, start), layer, parts > 1 ? part : no_index};
      const std::vector<int> ends = add_sync(pair_all_reduce, group);
      for (std::size_t i = 0; i < ends.size(); ++i) last_[holders[i]].push_back(ends[i]);
    }
  }

  const Job& job_;
  const Plan& plan_;
  const PathSchedule* const paths_;  // null: every pipeline computes its own micro-batches
  const LoadModel model_;
  GraphBuilder builder_;
  const double overhead_;
  const bool has_barrier_;  // at the end of the iteration
  const bool is_sharded_;   // the replicas of a layer partition its optimizer state
  const int replicas_;      // how many do; 1 if it is not sharded
  std::vector<PipelineEndTasks> ends_;
  std::map<int, std::vector<int>> last_;  // [device]: tasks so far that end its part
  std::vector<LayerGroup> scattered_;     // those whose gradients have been reduce-scattered
  std::vector<DeviceTask> pending_;       // tasks to be added to `last_`
  // [pipeline, layer, device]: the tasks after which the replicas have synchronized a tied layer.
  std::map<std::array<int, 3>, std::vector<int>> synchronized_;
};

/// The virtual stages of a pipeline, in the order in which micro-batches pass them.
std::vector<Stage> virtual_stages(const Pipeline& pipeline, int chunks) {
  std::vector<Stage> result;
  for (const auto& layers : virtual_stage_layers(pipeline, chunks))
    result.push_back({layers, pipeline.stages[result.size() % pipeline.stages.size()].devices});
  return result;
}

void check_size(const Plan& plan) {
  if (const double computations = computations_of(plan); computations > max_computations)
    throw Error("", fmt::format("the plan has {:.3g} computations per iteration, more than the limit of "
                                "{:.3g}; use fewer micro-batches or devices",
                                computations, max_computations));
}

void check_plan(const Plan& plan, const PathSchedule* paths = nullptr) {
  if (plan.pipelines.empty()) throw Error("", "the plan has no pipelines");
  check_optimizer_sharding(plan);
  if (paths && plan.execution.optimizer_sharding != OptimizerSharding::none)
    throw Error("", fmt::format("{} is not supported with paths of micro-batches",
                                name_of(plan.execution.optimizer_sharding)));
  check_size(plan);
  check_tensor_degrees(plan);
}

}  // namespace

Plan without_gradient_sync(Plan plan) {
  plan.execution.gradient_sync = GradientSync::none;
  return plan;
}

Plan expand_virtual_stages(const Plan& plan) {
  if (!traits(plan.execution.schedule).has_chunks) return plan;
  Plan result = plan;
  for (Pipeline& pipeline : result.pipelines)
    pipeline.stages = virtual_stages(pipeline, plan.execution.chunks.value_or(1));
  return result;
}

double computations_of(const Plan& plan) {
  const double operations = traits(plan.execution.schedule).splits_backward ? 3 : 2;
  double computations = 0;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      computations += operations * pipeline.micro_batches * static_cast<double>(stage.devices.size());
  return computations;
}

double tasks_of(const Problem& problem, const Plan& plan) {
  if (!traits(plan.execution.optimizer_sharding).gradients) return computations_of(plan);
  const int layers = layer_count(problem.job.model);
  return computations_of(plan) * layers + zero_graph_messages(problem.topology, layers, plan);
}

double simulation_bytes(const Problem& problem, const Plan& plan, bool is_reduced) {
  // Measured: a computation with its messages between stages, and a message between replicas.
  constexpr double per_computation = 450, per_message = 350;
  if (traits(plan.execution.optimizer_sharding).gradients)
    return computations_of(plan) * layer_count(problem.job.model) * per_computation +
           zero_graph_messages(problem.topology, layer_count(problem.job.model), plan) * per_message;
  Plan computed = expand_virtual_stages(plan);
  if (is_reduced) computed = reduce_by_symmetry(problem.topology, computed).plan;
  std::set<int> cuts;  // first layers of the ranges that are synchronized together
  std::size_t parts = 1;
  for (const Pipeline& pipeline : computed.pipelines)
    for (const Stage& stage : pipeline.stages) {
      cuts.insert(stage.layers.first);
      parts = std::max(parts, stage.devices.size());
    }
  const auto replicas = static_cast<double>(computed.pipelines.size());
  const double buckets =
      plan.execution.overlap ? layer_count(problem.job.model) : static_cast<double>(cuts.size());
  const GradientSyncTraits& sync = traits(plan.execution.gradient_sync);
  const bool is_dense = sync.has_halves && !sync.shares_by_site();  // 2 n (n − 1) messages
  const double messages =
      2 * buckets * static_cast<double>(parts) * replicas * (is_dense ? replicas : std::log2(replicas + 1));
  return computations_of(computed) * per_computation + messages * per_message;
}

LabelledGraph iteration_graph(const Problem& problem, const Plan& plan, const PathSchedule* paths,
                              const StopFunction& stop) {
  check_plan(plan, paths);
  if (traits(plan.execution.optimizer_sharding).gradients) return zero_graph(problem, plan, stop);
  const Plan computed = expand_virtual_stages(plan);
  return IterationGraph(problem, computed, sharing_replicas(problem.topology, computed), paths, stop).build();
}

LabelledGraph reduced_iteration_graph(const Problem& problem, const Plan& plan, const StopFunction& stop) {
  throw_if_stopped(stop);
  if (traits(plan.execution.optimizer_sharding).gradients)
    return iteration_graph(problem, plan, nullptr, stop);
  check_plan(plan);
  const Plan computed = expand_virtual_stages(plan);
  const auto [reduced, symmetry] = reduce_by_symmetry(problem.topology, computed);
  return IterationGraph(problem, reduced, sharing_replicas(problem.topology, computed), nullptr, stop,
                        symmetry)
      .build();
}

}  // namespace dtfm::sim
