#include "simulator/iteration/iteration_graph.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/communication.hpp"
#include "core/plan/gradient_pieces.hpp"
#include "core/plan/scalar_reductions.hpp"
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

class IterationGraph {
 public:
  /// `plan`: `whole` with virtual stages, or reduced by symmetry.
  IterationGraph(const Problem& problem, const Plan& plan, const Plan& whole, const PathSchedule* paths,
                 const StopFunction& stop, DeviceSymmetry symmetry = {})
      : problem_(problem),
        plan_(plan),
        paths_(paths),
        model_(problem, plan),
        communications_(
            replica_communications(model_.bytes(), plan, sharing_replicas(problem.topology, whole))),
        builder_(problem.topology, problem.constants, std::move(symmetry)),
        overhead_(problem.constants.iteration_overhead_s),
        has_barrier_(plan.execution.iteration_barrier || paths),
        is_sharded_(traits(plan.execution.optimizer_sharding).optimizer),
        replicas_(sharing_replicas(problem.topology, whole)),
        scalars_(scalar_reductions(problem.job, whole)) {
    builder_.set_stop(stop);
    if (plan.execution.messaging == Messaging::torch && problem.topology->transport &&
        problem.topology->transport->all_reduces_shards)
      for (Communication& it : communications_)
        if (it.collective == Collective::reduce_scatter) it.collective = Collective::all_reduce;
  }

  LabelledGraph build() {
    builder_.reserve(estimate_task_count());
    if (paths_) ends_ = add_paths(builder_, model_, plan_, *paths_);
    for (int number = 0; number < static_cast<int>(plan_.pipelines.size()); ++number) {
      if (!paths_) ends_.push_back(add_pipeline(builder_, model_, problem_.job, plan_, number));
      add_pipeline_ends(number);
    }
    add_communications(Moment::after_last_backward);
    add_communications(Moment::after_gradient_sync);
    await_pending();
    add_norm();
    add_updates();
    add_communications(Moment::after_update);
    await_pending();
    add_loss();
    add_end();
    return builder_.take();
  }

 private:
  std::size_t estimate_task_count() const {
    std::size_t sum = 0;
    for (const Pipeline& pipeline : plan_.pipelines)
      for (const Stage& stage : pipeline.stages) {
        const std::size_t devices = stage.devices.size();
        const std::size_t tasks_per_micro_batch =
            devices == 1
                ? 4
                : (6 + 2 * at(plan_.execution.expert - 1)) * (devices + 1);  // with exchanges and joins
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

  static TaskLabel scalar_label(int number, int device = no_index) {
    TaskLabel label;
    label.activity = Activity::step;
    label.phase = number;
    label.device = device;
    return label;
  }

  double latency_s(int from, int to) const { return problem_.topology->link(from, to).latency.value(); }

  /// A message whose receive has long been posted.
  double scalar_s(int from, int to) const {
    return from == to
               ? 0
               : latency_s(from, to) + message_overhead_s(problem_.constants, problem_.topology, from, to);
  }

  double route_s(const ScalarRoute& route) const {
    double seconds = 0;
    for (std::size_t i = 1; i < route.size(); ++i) seconds += scalar_s(route[i - 1], route[i]);
    return seconds;
  }

  /// Replicas have already waited for each other, and stages do so here. So all begin together.
  void add_norm() {
    double seconds = 0;
    for (const ScalarReduction& it : scalars_.norms) {
      double longest_s = 0;
      for (const ScalarRoute& route : it.routes) longest_s = std::max(longest_s, route_s(route));
      seconds += it.count * longest_s;
    }
    if (seconds == 0) return;
    std::vector<int> all;
    for (const auto& [device, tasks] : last_) all.insert(all.end(), tasks.begin(), tasks.end());
    const int norm = builder_.wait(seconds, all, scalar_label(0));
    for (auto& [device, tasks] : last_) tasks = {norm};
  }

  /// The last stages begin to reduce the loss when they are done.
  void add_loss() {
    if (scalars_.loss.empty()) return;
    std::vector<int> all;
    for (const Pipeline& pipeline : plan_.pipelines) {
      const std::vector<int>& last = last_[pipeline.stages.back().devices.front()];
      all.insert(all.end(), last.begin(), last.end());
    }
    const int loss = builder_.wait(route_s(scalars_.loss), all, scalar_label(1));
    for (const Pipeline& pipeline : plan_.pipelines) {
      const int from = pipeline.stages.back().devices.front(), to = pipeline.stages.front().devices.front();
      std::vector<int>& last = last_[to];
      last.push_back(loss);
      const double seconds = scalar_s(from, to) + (builder_.announces(from, to) ? latency_s(to, from) : 0);
      if (seconds > 0) last = {builder_.wait(seconds, last, scalar_label(2, to))};
    }
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

  /// Devices with the same parameters that partition them; 1 if they do not.
  int sharing(const Communication& it) const {
    const StageMesh mesh = stage_mesh(plan_.execution, stage_devices(plan_, it, 0).size());
    return is_sharded_ ? replicas_ * mesh.copies(it.experts) : 1;
  }

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

  void add_communications(Moment moment) {
    std::map<std::vector<int>, int> counts;  // by devices: synchronizations that may run at the same time
    for (const Communication& it : communications_)
      if (it.moment == moment) ++counts[it.devices];
    for (const Communication& it : communications_)
      if (it.moment == moment && builder_.symmetry().represented(it.devices) > 1)
        add(it, it.overlaps && counts[it.devices] > 1);
  }

  void add(const Communication& it, bool overlaps) {
    const bool is_tied = it.payload == Payload::tied_gradients;
    DTFM_ASSERT(paths_ || is_tied || it.devices.size() >= plan_.pipelines.size());
    const bool compressed = it.payload == Payload::gradients && is_compressed(it.devices);
    const double bytes = compressed ? it.bytes * plan_.execution.compression.gradients : it.bytes,
                 compression_s = compressed ? model_.gradient_compression_s(bytes) : 0;
    const int part = label_of(it);
    const bool in_pieces =
        it.payload == Payload::gradients && !paths_ && synchronizes_pieces(plan_.execution, it.algorithm);
    std::vector<int>* const before = in_pieces ? &group_ends_[{it.devices, it.part, it.experts}] : nullptr;
    std::vector<std::vector<int>> ready;
    for (std::size_t i = 0; i < it.devices.size(); ++i) {
      ready.push_back(ready_of(it, i));
      if (compression_s > 0) ready.back() = {add_compression(it, i, compression_s, 0, ready.back().front())};
      if (before && !before->empty()) ready.back().push_back((*before)[i]);
    }
    const SyncGroup group{it.devices,
                          bytes,
                          sync_starts(it.devices, ready, start_label(it)),
                          it.layers.first,
                          part,
                          {it.collective, is_sharded_ ? sharing(it) : 0},
                          overlaps && !in_pieces,
                          in_pieces ? gradient_pieces(it.bytes) : 0};
    const std::vector<int> ends = add_sync(it.algorithm, group);
    if (before) *before = ends;
    for (std::size_t i = 0; i < ends.size(); ++i)
      if (it.moment == Moment::after_update)
        pending_.push_back({it.devices[i], ends[i]});
      else
        set_sum(
            it, i,
            compression_s > 0 ? add_compression(it, i, compression_s / sharing(it), 1, ends[i]) : ends[i]);
  }

  /// The tasks after which a member has its data.
  std::vector<int> ready_of(const Communication& it, std::size_t member) {
    const int device = it.devices[member], pipeline = it.pipelines[member];
    if (it.moment == Moment::after_update) {
      std::vector<int> ready = last_[device];
      for (const DeviceTask& pending : pending_)  // gathers of other parameters
        if (it.experts && pending.device == device) ready.push_back(pending.task);
      return ready;
    }
    const bool is_tied = it.payload == Payload::tied_gradients;
    // Backward computes the first layer of a group last, so its gradients are the last to be ready.
    const int layer = is_tied && member == 0 ? 0 : it.layers.first;
    std::vector<int> ready;
    if (is_tied || it.experts) ready = synchronized_[{pipeline, layer, device}];
    const std::vector<int>& stage = stage_devices(plan_, it, member);
    const auto rank = std::find(stage.begin(), stage.end(), device) - stage.begin();
    ready.push_back(ends_[at(pipeline)].gradients[at(layer)][static_cast<std::size_t>(rank)]);
    return ready;
  }

  /// Records the task after which a member has the sum of its gradients.
  void set_sum(const Communication& it, std::size_t member, int task) {
    last_[it.devices[member]].push_back(task);
    if (it.payload != Payload::gradients || it.experts) return;
    const LayerBytes& bytes = model_.bytes();
    for (int layer = it.layers.first; layer < it.layers.second; ++layer)
      if (layer == 0 || bytes.tied_gradients(layer) > 0 ||
          (layer == it.layers.first && bytes.expert_elements(it.layers) > 0))
        synchronized_[{it.pipelines[member], layer, it.devices[member]}].push_back(task);
  }

  TaskLabel start_label(const Communication& it) const {
    TaskLabel start;
    start.layer = it.layers.first;
    if (it.parts > 1) start.rank = it.part;
    if (it.payload == Payload::tied_gradients) start.pipeline = it.pipelines.front();
    if (it.moment == Moment::after_update)
      start.phase = 2 * static_cast<int>(it.devices.size());  // no algorithm has so many
    if (it.experts)
      start.phase = 2 * static_cast<int>(it.devices.size()) + (it.moment == Moment::after_update ? 3 : 1);
    return start;
  }

  /// The part, if the same devices may have several: those of a stage with fewer devices, or experts besides
  /// other parameters.
  int label_of(const Communication& it) const {
    if (it.payload == Payload::tied_gradients) return it.parts > 1 ? it.part : no_index;
    if (it.experts) return it.part;
    for (std::size_t i = 0; i < it.stages.size(); ++i)
      if (stage_mesh(plan_.execution, stage_devices(plan_, it, i).size()).shards(false) < it.parts)
        return it.part;
    return no_index;
  }

  /// Compresses (phase 0) or decompresses (phase 1) the gradients on one device.
  int add_compression(const Communication& it, std::size_t member, double seconds, int phase, int after) {
    TaskLabel label;
    label.activity = Activity::compress;
    label.layer = it.layers.first;
    label.rank = label_of(it);
    label.phase = phase;
    return builder_.compute(it.devices[member], seconds, std::array{after}, label);
  }

  bool is_compressed(std::vector<int> devices) const {
    for (std::size_t i = 0, count = devices.size(); i < count; ++i)
      if (const int twin = builder_.symmetry().twin_of(devices[i]); twin != no_index) devices.push_back(twin);
    return model_.is_compressed(devices);
  }

  const Problem& problem_;
  const Plan& plan_;
  const PathSchedule* const paths_;  // null: every pipeline computes its own micro-batches
  const LoadModel model_;
  std::vector<Communication> communications_;  // between pipelines, and of tied layers
  GraphBuilder builder_;
  const double overhead_;
  const bool has_barrier_;  // at the end of the iteration
  const bool is_sharded_;   // the replicas of a layer partition its optimizer state
  const int replicas_;      // how many do; 1 if it is not sharded
  const ScalarReductions scalars_;
  std::vector<PipelineEndTasks> ends_;
  std::map<int, std::vector<int>> last_;  // [device]: tasks so far that end its part
  std::vector<DeviceTask> pending_;       // tasks to be added to `last_`
  // [devices, part, experts]: the tasks after which each device has completed the last synchronization in
  // pieces of this process group.
  std::map<std::tuple<std::vector<int>, int, bool>, std::vector<int>> group_ends_;
  // [pipeline, layer, device]: the tasks after which the replicas have synchronized a layer, without experts,
  // if others wait for that.
  std::map<std::array<int, 3>, std::vector<int>> synchronized_;
};

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
  check_stage_sizes(plan);
  check_tensor_degrees(plan);
}

}  // namespace

Plan without_gradient_sync(Plan plan) {
  plan.execution.gradient_sync = GradientSync::none;
  return plan;
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
  return computations_of(plan) * layer_count(problem.job.model) + zero_graph_messages(problem, plan);
}

double simulation_bytes(const Problem& problem, const Plan& plan, bool is_reduced) {
  // Measured: a computation with its messages between stages, and a message between replicas.
  constexpr double per_computation = 450, per_message = 350;
  if (traits(plan.execution.optimizer_sharding).gradients)
    return computations_of(plan) * layer_count(problem.job.model) * per_computation +
           zero_graph_messages(problem, plan) * per_message;
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
  return IterationGraph(problem, computed, computed, paths, stop).build();
}

LabelledGraph reduced_iteration_graph(const Problem& problem, const Plan& plan, const StopFunction& stop) {
  throw_if_stopped(stop);
  if (traits(plan.execution.optimizer_sharding).gradients)
    return iteration_graph(problem, plan, nullptr, stop);
  check_plan(plan);
  const Plan computed = expand_virtual_stages(plan);
  const auto [reduced, symmetry] = reduce_by_symmetry(problem.topology, computed);
  return IterationGraph(problem, reduced, computed, nullptr, stop, symmetry).build();
}

}  // namespace dtfm::sim
