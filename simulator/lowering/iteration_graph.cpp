#include "simulator/lowering/iteration_graph.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <fmt/format.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "simulator/lowering/pipeline_graph.hpp"
#include "simulator/sync/sync.hpp"

namespace dtfm {
namespace {

/// Layers whose gradients are exchanged together.
struct LayerGroup {
  std::pair<int, int> layers;
  int rank = 0;
  std::vector<int> holders;  // in each pipeline
};

class IterationGraph {
 public:
  IterationGraph(const Problem& problem, const Plan& plan)
      : job_(problem.job),
        plan_(plan),
        model_(problem, plan),
        builder_(problem.topology, problem.constants),
        overhead_(problem.constants.iteration_overhead_s) {}

  LabelledGraph build() {
    builder_.reserve(estimated_tasks());
    for (int number = 0; number < static_cast<int>(plan_.pipelines.size()); ++number) {
      ends_.push_back(add_pipeline(builder_, model_, job_, plan_, number));
      add_ends_of(number);
    }
    if (plan_.pipelines.size() > 1)
      for (const LayerGroup& group : groups()) add_exchange_of(group);
    add_updates();
    TaskLabel step;
    step.activity = Activity::step;
    builder_.wait(overhead_, last_, step);
    return builder_.take();
  }

 private:
  std::size_t estimated_tasks() const {
    std::size_t sum = 0;
    const std::size_t tensor = plan_.pipelines.front().stages.front().devices.size();
    const std::size_t of_micro_batch = tensor == 1 ? 4 : 6 * (tensor + 1);  // with all-reduces and joins
    for (const Pipeline& pipeline : plan_.pipelines)
      sum += of_micro_batch * at(pipeline.micro_batches) * pipeline.stages.size();
    return sum + 1000;
  }

  void add_end(int device, int task) {
    last_.push_back(task);
    last_of_[device].push_back(task);
  }

  /// A pipeline's computations.
  void add_ends_of(int number) {
    const std::vector<Stage>& stages = plan_.pipelines[at(number)].stages;
    const std::size_t tensor = stages.front().devices.size();
    const std::vector<int>& last = ends_.back().last;
    for (std::size_t i = 0; i < last.size(); ++i) add_end(stages[i / tensor].devices[i % tensor], last[i]);
  }

  /// Where they take time: of all layers of a device together, when it has computed and exchanged all.
  void add_updates() {
    std::map<int, double> seconds;
    for (const Pipeline& pipeline : plan_.pipelines)
      for (const Stage& stage : pipeline.stages)
        for (const int device : stage.devices) seconds[device] += model_.of(stage).update_s;
    TaskLabel label;
    label.activity = Activity::update;
    for (const auto& [device, update_s] : seconds)
      if (update_s > 0) last_.push_back(builder_.compute(device, update_s, last_of_[device], label));
  }

  std::vector<int> holders(int layer, int rank) const {
    std::vector<int> devices;
    for (const Pipeline& pipeline : plan_.pipelines)
      for (const Stage& stage : pipeline.stages)
        if (stage.layers.first <= layer && layer < stage.layers.second)
          devices.push_back(stage.devices[at(rank)]);
    DTFM_ASSERT(devices.size() == plan_.pipelines.size());
    return devices;
  }

  /// Neighbouring layers with the same holders, unless every layer goes by itself.
  std::vector<LayerGroup> groups() const {
    std::vector<LayerGroup> groups;
    const std::size_t tensor = plan_.pipelines.front().stages.front().devices.size();
    for (int rank = 0; at(rank) < tensor; ++rank)
      for (int layer = 0; layer < model_.layers(); ++layer) {
        const std::vector<int> devices = holders(layer, rank);
        if (layer > 0 && !job_.parallelism.overlap && groups.back().holders == devices)
          ++groups.back().layers.second;
        else
          groups.push_back({{layer, layer + 1}, rank, devices});
      }
    return groups;
  }

  double bytes_of(const LayerGroup& group) const {
    const bool has_first = group.holders == holders(0, group.rank);
    double bytes = 0;
    for (int layer = group.layers.first; layer < group.layers.second; ++layer)
      bytes += model_.gradient_bytes(layer, has_first);
    return bytes / static_cast<double>(plan_.pipelines.front().stages.front().devices.size());
  }

  /// Of the gradients on one device, before (phase 0) or after (phase 1) they travel, if that takes time.
  int recode(const LayerGroup& group, std::size_t pipeline, double bytes, int phase, int after) {
    const Compression& compression = job_.compression;
    if (!compression.throughput || compression.gradients == 1) return after;
    TaskLabel label;
    label.activity = Activity::compress;
    label.layer = group.layers.first;
    label.phase = phase;
    const Seconds time = Bytes(bytes / compression.gradients) / *compression.throughput;
    return builder_.compute(group.holders[pipeline], time.value(), std::array{after}, label);
  }

  void add_exchange_of(const LayerGroup& group) {
    const double bytes = bytes_of(group);
    TaskLabel start;
    start.layer = group.layers.first;
    if (plan_.pipelines.front().stages.front().devices.size() > 1) start.rank = group.rank;
    std::vector<int> ready;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
      // The gradients of the first layer of a group are the last to come.
      const int gradients = ends_[i].gradients[at(group.layers.first)][at(group.rank)];
      ready.push_back(recode(group, i, bytes, 0, gradients));
    }
    const Exchange exchange{group.holders, bytes, builder_.wait(0, ready, start), group.layers.first};
    const std::vector<int> ends = add_exchange(builder_, plan_.gradient_sync, exchange);
    for (std::size_t i = 0; i < ends.size(); ++i)
      add_end(group.holders[i], recode(group, i, bytes, 1, ends[i]));
  }

  const Job& job_;
  const Plan& plan_;
  const LoadModel model_;
  GraphBuilder builder_;
  const double overhead_;
  std::vector<PipelineEnds> ends_;
  std::vector<int> last_;  // what the step waits for
  std::map<int, std::vector<int>>
      last_of_;  // of that, computations and exchanges: what a device's update waits for
};

/// A pipeline's stages dealt out: part `chunk` of every device in turn.
std::vector<Stage> dealt(const std::vector<Stage>& stages, int chunks) {
  std::vector<Stage> result;
  int next = stages.front().layers.first;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (const Stage& stage : stages) {
      const int layers = stage.layers.second - stage.layers.first;
      if (layers < chunks)
        throw Error("",
                    fmt::format("schedule interleaved: {} layers of a device cannot be cut into {} chunks",
                                layers, chunks));
      const auto [begin, end] = even_split(layers, chunks, chunk);
      result.push_back({{next, next + end - begin}, stage.devices});
      next += end - begin;
    }
  return result;
}

void check_tensor(const Plan& plan) {
  const std::size_t tensor = plan.pipelines.front().stages.front().devices.size();
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (stage.devices.size() != tensor)
        throw Error("", "stages with different numbers of devices are not supported yet by the simulator");
}

/// Before memory for them is asked for: forwards and backwards of all micro-batches, some 200 bytes each.
void check_size(const Plan& plan) {
  constexpr double most_computations = 2e7;
  double computations = 0;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      computations += 2.0 * pipeline.micro_batches * static_cast<double>(stage.devices.size());
  if (computations > most_computations)
    throw Error("", fmt::format("the plan has {:.3g} computations an iteration; {:.3g} are the most",
                                computations, most_computations));
}

}  // namespace

Plan computed_stages(const Job& job, const Plan& plan) {
  if (plan.schedule != "interleaved") return plan;
  Plan result = plan;
  for (Pipeline& pipeline : result.pipelines)
    pipeline.stages = dealt(pipeline.stages, job.parallelism.chunks.value_or(1));
  return result;
}

LabelledGraph iteration_graph(const Problem& problem, const Plan& plan) {
  if (plan.pipelines.empty()) throw Error("", "the plan has no pipeline");
  check_size(plan);
  check_tensor(plan);
  const Plan computed = computed_stages(problem.job, plan);
  return IterationGraph(problem, computed).build();
}

}  // namespace dtfm
