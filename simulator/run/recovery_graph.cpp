#include "simulator/run/recovery_graph.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/stage_mesh.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::sim {
namespace {

class FetchPlanner {
 public:
  FetchPlanner(const Problem& problem, const Plan& plan, const std::vector<StageShard>& held)
      : problem_(problem),
        execution_(plan.execution),
        loads_(problem, plan),
        sources_(held),
        busy_s_(at(problem.topology->size())) {}

  /// Adds fetches of all layers of a shard that its device does not hold, part by part.
  void add(const StageShard& shard) {
    const int degree = shards_of(shard);
    Fetch fetch{shard.device, shard.pipeline, shard.stage};
    fetch.parts = degree;
    for (const StageShard& source : sources_)
      if (source.layers.first < shard.layers.second && source.layers.second > shard.layers.first)
        fetch.parts = std::max(fetch.parts, shards_of(source));
    const Stage stage{shard.layers, shard.devices};
    for (fetch.part = 0; fetch.part < fetch.parts; ++fetch.part)
      if (rank_of_part(fetch.part, fetch.parts, degree) == shard.rank % degree) add_part(stage, fetch);
  }
  std::vector<Fetch> take() { return std::move(fetches_); }

 private:
  void add_part(const Stage& stage, Fetch fetch) {
    for (int layer = stage.layers.first; layer < stage.layers.second; layer = fetch.layers.second) {
      if (const int end = owned_until(layer, fetch); end > layer) {
        fetch.layers.second = end;
        continue;
      }
      fetch.from.reset();
      fetch.layers = {layer, next_source_after(layer, stage.layers.second, fetch)};
      choose_source(stage, fetch);
      fetch.bytes = bytes_of(stage, fetch.layers, fetch.parts);
      fetches_.push_back(fetch);
    }
  }

  double bytes_of(const Stage& stage, std::pair<int, int> layers, int parts) const {
    const double of_device = loads_.of({layers, stage.devices}).weight_bytes;
    return of_device * (static_cast<double>(shards_of(stage.devices.size())) / parts);
  }

  /// Number of devices of a stage with different parameters; then come others with the same.
  int shards_of(std::size_t devices) const {
    const StageMesh mesh = stage_mesh(execution_, devices);
    return std::lcm(mesh.shards(false), mesh.shards(true));
  }
  int shards_of(const StageShard& shard) const { return shards_of(shard.devices.size()); }

  bool holds_part(const StageShard& source, const Fetch& fetch) const {
    const int shards = shards_of(source);
    return rank_of_part(fetch.part, fetch.parts, shards) == source.rank % shards;
  }

  /// The end of the range of layers from `layer` on that the device already holds; `layer` if it does not
  /// hold that layer.
  int owned_until(int layer, const Fetch& fetch) const {
    for (const StageShard& source : sources_)
      if (source.device == fetch.to && source.layers.first <= layer && layer < source.layers.second &&
          holds_part(source, fetch))
        return source.layers.second;
    return layer;
  }

  /// The first layer after `layer` at which the layers of a source begin; `end` if there is none before it.
  int next_source_after(int layer, int end, const Fetch& fetch) const {
    for (const StageShard& source : sources_)
      if (source.layers.first > layer && source.layers.first < end && holds_part(source, fetch))
        end = source.layers.first;
    return end;
  }

  void choose_source(const Stage& stage, Fetch& fetch) {
    const int first = fetch.layers.first;
    double earliest = std::numeric_limits<double>::infinity();
    const StageShard* chosen = nullptr;
    double chosen_s = 0;
    for (const StageShard& source : sources_) {
      if (source.layers.first > first || source.layers.second <= first || !holds_part(source, fetch))
        continue;
      const auto link = problem_.topology->link(source.device, fetch.to);
      const std::pair layers{first, std::min(stage.layers.second, source.layers.second)};
      const double duration = (Bytes(bytes_of(stage, layers, fetch.parts)) / link.bandwidth).value();
      const double end = busy_s_[at(source.device)] + duration + link.latency.value();
      if (end > earliest || (end == earliest && source.device >= chosen->device)) continue;
      earliest = end;
      chosen = &source;
      chosen_s = duration;
    }
    if (chosen == nullptr) return;
    busy_s_[at(chosen->device)] += chosen_s;
    fetch.from = chosen->device;
    fetch.layers.second = std::min(stage.layers.second, chosen->layers.second);
    for (const StageShard& own : sources_)
      if (own.device == fetch.to && own.layers.first > first && holds_part(own, fetch))
        fetch.layers.second = std::min(fetch.layers.second, own.layers.first);
  }

  const Problem& problem_;
  const ExecutionConfig execution_;
  const LoadModel loads_;
  std::vector<StageShard> sources_;
  std::vector<double> busy_s_;  // [device]: time to send the fetches assigned to it so far
  std::vector<Fetch> fetches_;
};

TaskLabel label_of(const Fetch& fetch) {
  TaskLabel label;
  label.activity = Activity::fetch;
  label.peer = fetch.to;
  label.pipeline = fetch.pipeline;
  label.stage = fetch.stage;
  label.layer = fetch.layers.first;
  label.rank = fetch.part;
  return label;
}

}  // namespace

std::vector<StageShard> stage_shards(const Plan& computed, const std::vector<bool>& running) {
  std::vector<StageShard> shards;
  for (int pipeline = 0; at(pipeline) < computed.pipelines.size(); ++pipeline) {
    if (!running[at(pipeline)]) continue;
    const std::vector<Stage>& stages = computed.pipelines[at(pipeline)].stages;
    for (int stage = 0; at(stage) < stages.size(); ++stage)
      for (int rank = 0; at(rank) < stages[at(stage)].devices.size(); ++rank)
        shards.push_back({stages[at(stage)].devices[at(rank)], pipeline, stage, rank,
                          stages[at(stage)].devices, stages[at(stage)].layers});
  }
  return shards;
}

std::vector<StageShard> redundant_shards(const Plan& computed, const Plan& initial_plan,
                                         const std::vector<bool>& running,
                                         const std::vector<bool>& available) {
  std::vector<StageShard> copies;
  for (StageShard& shard : stage_shards(computed, running)) {
    const std::vector<Stage>& stages = initial_plan.pipelines[at(shard.pipeline)].stages;
    const Stage& holders = stages[at(shard.stage + 1) % stages.size()];
    if (holders.devices.size() != shard.devices.size()) continue;
    const int holder = holders.devices[at(shard.rank)];
    if (holder == shard.device || !available[at(holder)]) continue;
    shard.device = holder;
    copies.push_back(std::move(shard));
  }
  return copies;
}

std::vector<Fetch> plan_fetches(const Problem& problem, const Plan& plan,
                                const std::vector<StageShard>& wanted, const std::vector<StageShard>& held) {
  FetchPlanner fetches(problem, plan, held);
  for (const StageShard& shard : wanted) fetches.add(shard);
  return fetches.take();
}

LabelledGraph recovery_graph(const Problem& problem, const std::vector<Fetch>& fetches,
                             const std::optional<Checkpoint>& checkpoint) {
  GraphBuilder builder(problem.topology, problem.constants);
  std::vector<int> limited;      // tasks that the checkpoint's bandwidth limits
  std::map<int, int> last_read;  // [device]: its last read, which its next one waits for
  for (const Fetch& fetch : fetches) {
    DTFM_ASSERT(fetch.from || checkpoint);
    const std::optional<int> from = fetch.from ? fetch.from : checkpoint->device;
    if (from && *from != fetch.to) {
      const Channel channel = builder.channel(*from, fetch.to, Activity::fetch);
      const int task = builder.send(channel, fetch.bytes, {}, label_of(fetch));
      if (!fetch.from && checkpoint->bandwidth > 0) limited.push_back(task);
    } else {
      // The checkpoint is in a store that is equally near to all devices, or on the device's own disk.
      const double bandwidth = checkpoint->bandwidth;
      const double duration = bandwidth > 0 ? fetch.bytes * bits_per_byte / bandwidth : 0;
      int& last = last_read.try_emplace(fetch.to, no_index).first->second;
      last = builder.wait(duration, std::array{last}, label_of(fetch));
    }
  }
  LabelledGraph graph = builder.take();
  for (const int task : limited) graph.graph.tasks[at(task)].rate = checkpoint->bandwidth / bits_per_byte;
  return graph;
}

LabelledGraph checkpoint_graph(const Problem& problem, const Plan& plan, const Pipeline& pipeline, int number,
                               const Checkpoint& checkpoint) {
  const LoadModel loads(problem, plan);
  GraphBuilder builder(problem.topology, problem.constants);
  std::vector<int> limited;
  std::map<int, int> last_written;  // [device]: its last write
  for (int stage = 0; at(stage) < pipeline.stages.size(); ++stage) {
    const Stage& it = pipeline.stages[at(stage)];
    const double bytes = loads.of(it).weight_bytes;
    for (int rank = 0; at(rank) < it.devices.size(); ++rank) {
      const int device = it.devices[at(rank)];
      TaskLabel label;
      label.activity = Activity::save_checkpoint;
      label.device = device;
      label.pipeline = number;
      label.stage = stage;
      label.rank = rank;
      if (checkpoint.device && *checkpoint.device != device) {
        label.peer = *checkpoint.device;
        limited.push_back(
            builder.send(builder.channel(device, label.peer, Activity::save_checkpoint), bytes, {}, label));
      } else {
        const double duration = checkpoint.bandwidth > 0 ? bytes * bits_per_byte / checkpoint.bandwidth : 0;
        int& last = last_written.try_emplace(device, no_index).first->second;
        last = builder.wait(duration, std::array{last}, label);
      }
    }
  }
  LabelledGraph graph = builder.take();
  if (checkpoint.bandwidth > 0)
    for (const int task : limited) graph.graph.tasks[at(task)].rate = checkpoint.bandwidth / bits_per_byte;
  return graph;
}

}  // namespace dtfm::sim
