#include "simulator/run/recovery_graph.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/model_state.hpp"
#include "core/plan/sharing_replicas.hpp"
#include "core/plan/stage_mesh.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm::sim {
namespace {

/// What the devices of a plan hold and load of the state of their layers.
struct StateKind {
  bool experts = false;  // of the experts, where these are divided in their own way; otherwise of the rest
  bool weights = false;  // the weights, in the precision of the training; otherwise what a checkpoint has
};

/// A part of every layer of a stage, in units of which a layer has a number given elsewhere.
struct LayerPart {
  long long begin = 0, end = 0;
  bool contains(const LayerPart& it) const { return begin <= it.begin && it.end <= end; }
};

/// How the devices of a plan divide the state of a layer. The devices of a stage have shards of it
/// (StageMesh). With optimizer sharding, all devices with the same shard, in a stage and in the replicas that
/// share it (sharing_replicas), have equal parts of what a checkpoint has of the shard, one after another.
/// The weights in the precision of the training are whole, except under zero3. A device rounds those of its
/// own part itself, and loads the others.
class StateDivision {
 public:
  StateDivision(const Problem& problem, const Plan& plan)
      : execution_(plan.execution),
        sharding_(traits(plan.execution.optimizer_sharding)),
        bytes_(parameter_bytes(problem.job.training)),
        loads_(problem, plan) {
    kinds_.push_back({});
    if (!sharding_.optimizer) return;
    if (execution_.expert > 1) kinds_.push_back({true, false});
    if (sharding_.parameters) return;
    for (std::size_t i = 0, count = kinds_.size(); i < count; ++i)
      kinds_.push_back({kinds_[i].experts, true});
  }

  const std::vector<StateKind>& kinds() const { return kinds_; }
  /// Into how many parts the parts of all devices can be cut.
  long long units_of(const StageShard& shard, const StateKind& kind) const {
    return static_cast<long long>(shards_of(shard, kind)) * parts_of(shard, kind);
  }
  /// What the device of the shard holds, if a layer has so many units.
  LayerPart held(const StageShard& shard, const StateKind& kind, long long units) const {
    return kind.weights ? whole(shard, kind, units) : own(shard, kind, units);
  }
  /// What the device of the shard loads, if it has nothing.
  std::vector<LayerPart> loaded(const StageShard& shard, const StateKind& kind, long long units) const {
    const LayerPart of_device = own(shard, kind, units);
    if (!kind.weights) return {of_device};
    const LayerPart all = whole(shard, kind, units);
    return {{all.begin, of_device.begin}, {of_device.end, all.end}};
  }
  /// Bytes of these layers, if the device has `part` of the `units` of each.
  double bytes_of(const StageShard& shard, std::pair<int, int> layers, const StateKind& kind,
                  const LayerPart& part, long long units) const {
    const StageLoad load = loads_.of({layers, shard.devices});
    const double all = !sharding_.optimizer ? load.weight_bytes
                       : kind.experts       ? load.expert_weight_bytes
                                            : load.weight_bytes - load.expert_weight_bytes;
    const double share =
        static_cast<double>(shards_of(shard, kind) * (part.end - part.begin)) / static_cast<double>(units);
    return all * share * (kind.weights ? bytes_.weights / bytes_.checkpointed : 1);
  }

 private:
  /// Number of devices of a stage with different parameters; then come others with the same.
  int shards_of(const StageShard& shard, const StateKind& kind) const {
    const StageMesh mesh = stage_mesh(execution_, shard.devices.size());
    return sharding_.optimizer ? mesh.shards(kind.experts) : std::lcm(mesh.shards(false), mesh.shards(true));
  }
  int copies_of(const StageShard& shard, const StateKind& kind) const {
    return static_cast<int>(shard.devices.size()) / shards_of(shard, kind);
  }
  int parts_of(const StageShard& shard, const StateKind& kind) const {
    return sharding_.optimizer ? shard.shares * copies_of(shard, kind) : 1;
  }
  LayerPart whole(const StageShard& shard, const StateKind& kind, long long units) const {
    const long long size = units / shards_of(shard, kind), begin = shard.rank % shards_of(shard, kind) * size;
    return {begin, begin + size};
  }
  LayerPart own(const StageShard& shard, const StateKind& kind, long long units) const {
    LayerPart part = whole(shard, kind, units);
    const int parts = parts_of(shard, kind);
    if (shard.share == no_index) return {part.begin, part.begin};
    if (parts == 1) return part;
    const long long size = (part.end - part.begin) / parts;
    part.begin += size * (shard.rank / shards_of(shard, kind) + shard.share * copies_of(shard, kind));
    return {part.begin, part.begin + size};
  }

  const ExecutionConfig execution_;
  const OptimizerShardingTraits sharding_;
  const ParameterBytes bytes_;
  const LoadModel loads_;
  std::vector<StateKind> kinds_;
};

class FetchPlanner {
 public:
  FetchPlanner(const Problem& problem, const Plan& plan, const std::vector<StageShard>& held)
      : problem_(problem), state_(problem, plan), sources_(held), busy_s_(at(problem.topology->size())) {}

  /// The fetches of all parts of the wanted shards that their devices do not hold.
  std::vector<Fetch> plan(const std::vector<StageShard>& wanted) {
    for (const StageShard& shard : wanted)
      if (std::find(sources_.begin(), sources_.end(), shard) == sources_.end()) missing_.push_back(shard);
    if (missing_.empty()) return {};
    for (const StageShard& shard : missing_) parts_ = 0, add(shard);
    return std::move(fetches_);
  }

 private:
  void add(const StageShard& shard) {
    for (const StateKind& kind : state_.kinds()) {
      long long units = state_.units_of(shard, kind);
      std::vector<const StageShard*> overlapping;
      for (const StageShard& source : sources_) {
        if (source.layers.first >= shard.layers.second || source.layers.second <= shard.layers.first)
          continue;
        overlapping.push_back(&source);
        units = std::lcm(units, state_.units_of(source, kind));
      }
      kind_ = kind;
      units_ = units;
      holders_.clear();
      for (const StageShard* source : overlapping)
        holders_.push_back({source, state_.held(*source, kind, units)});
      for (const LayerPart& part : state_.loaded(shard, kind, units)) add(shard, part);
    }
  }

  /// Adds fetches of a part of the shard, cut where the parts of holders begin and end.
  void add(const StageShard& shard, const LayerPart& part) {
    if (part.begin == part.end) return;
    std::set<long long> cuts = {part.begin, part.end};
    for (const Holder& holder : holders_)
      for (const long long cut : {holder.part.begin, holder.part.end})
        if (part.begin < cut && cut < part.end) cuts.insert(cut);
    for (auto begin = cuts.begin(), end = std::next(begin); end != cuts.end(); ++begin, ++end)
      add_layers(shard, {*begin, *end});
  }

  void add_layers(const StageShard& shard, const LayerPart& part) {
    Fetch fetch{shard.device, shard.pipeline, shard.stage, parts_++};
    for (int layer = shard.layers.first; layer < shard.layers.second; layer = fetch.layers.second) {
      if (const int end = owned_until(layer, fetch.to, part); end > layer) {
        fetch.layers.second = end;
        continue;
      }
      fetch.from.reset();
      fetch.layers = {layer, next_source_after(layer, shard.layers.second, part)};
      choose_source(shard, part, fetch);
      fetch.bytes = bytes_of(shard, fetch.layers, part);
      if (fetch.bytes > 0 || !kind_.experts) fetches_.push_back(fetch);
    }
  }

  double bytes_of(const StageShard& shard, std::pair<int, int> layers, const LayerPart& part) const {
    return state_.bytes_of(shard, layers, kind_, part, units_);
  }

  /// The end of the range of layers from `layer` on of which the device already holds the part; `layer` if it
  /// does not hold that of this layer.
  int owned_until(int layer, int device, const LayerPart& part) const {
    for (const auto& [source, held] : holders_)
      if (source->device == device && source->layers.first <= layer && layer < source->layers.second &&
          held.contains(part))
        return source->layers.second;
    return layer;
  }

  /// The first layer after `layer` at which the layers of a source begin; `end` if there is none before it.
  int next_source_after(int layer, int end, const LayerPart& part) const {
    for (const auto& [source, held] : holders_)
      if (source->layers.first > layer && source->layers.first < end && held.contains(part))
        end = source->layers.first;
    return end;
  }

  void choose_source(const StageShard& shard, const LayerPart& part, Fetch& fetch) {
    const int first = fetch.layers.first;
    double earliest = std::numeric_limits<double>::infinity();
    const StageShard* chosen = nullptr;
    double chosen_s = 0;
    for (const auto& [source, held] : holders_) {
      if (source->layers.first > first || source->layers.second <= first || !held.contains(part)) continue;
      const auto link = problem_.topology->link(source->device, fetch.to);
      const std::pair layers{first, std::min(shard.layers.second, source->layers.second)};
      const double duration = (Bytes(bytes_of(shard, layers, part)) / link.bandwidth).value();
      const double end = busy_s_[at(source->device)] + duration + link.latency.value();
      if (end > earliest || (end == earliest && source->device >= chosen->device)) continue;
      earliest = end;
      chosen = source;
      chosen_s = duration;
    }
    if (chosen == nullptr) return;
    busy_s_[at(chosen->device)] += chosen_s;
    fetch.from = chosen->device;
    fetch.layers.second = std::min(shard.layers.second, chosen->layers.second);
    for (const auto& [own, held] : holders_)
      if (own->device == fetch.to && own->layers.first > first && held.contains(part))
        fetch.layers.second = std::min(fetch.layers.second, own->layers.first);
  }

  struct Holder {
    const StageShard* shard;
    LayerPart part;
  };

  const Problem& problem_;
  const StateDivision state_;
  std::vector<StageShard> sources_;
  std::vector<StageShard> missing_;
  std::vector<double> busy_s_;  // [device]: time to send the fetches assigned to it so far
  std::vector<Fetch> fetches_;
  // Of the kind of state that is added:
  StateKind kind_;
  long long units_ = 1;          // of a layer
  std::vector<Holder> holders_;  // of layers of the shard that is added
  int parts_ = 0;                // of the shard so far
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

std::vector<StageShard> stage_shards(const Topology& topology, const Plan& computed,
                                     const std::vector<bool>& running) {
  Plan together = computed;
  together.pipelines.clear();
  std::vector<int> numbers;
  for (int pipeline = 0; at(pipeline) < computed.pipelines.size(); ++pipeline) {
    if (!running[at(pipeline)]) continue;
    together.pipelines.push_back(computed.pipelines[at(pipeline)]);
    numbers.push_back(pipeline);
  }
  std::vector<StageShard> shards;
  if (numbers.empty()) return shards;
  const StateShares shares(topology, together);
  for (int i = 0; at(i) < numbers.size(); ++i) {
    const std::vector<Stage>& stages = together.pipelines[at(i)].stages;
    for (int stage = 0; at(stage) < stages.size(); ++stage)
      for (int rank = 0; at(rank) < stages[at(stage)].devices.size(); ++rank)
        for (const auto& [layers, share] : shares.of(i, stage, rank))
          shards.push_back({stages[at(stage)].devices[at(rank)], numbers[at(i)], stage, rank,
                            stages[at(stage)].devices, layers, share, shares.count()});
  }
  return shards;
}

std::vector<StageShard> redundant_shards(const Topology& topology, const Plan& computed,
                                         const Plan& initial_plan, const std::vector<bool>& running,
                                         const std::vector<bool>& available) {
  std::vector<StageShard> copies;
  for (StageShard& shard : stage_shards(topology, computed, running)) {
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
  return FetchPlanner(problem, plan, held).plan(wanted);
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

LabelledGraph checkpoint_graph(const Problem& problem, const Plan& plan,
                               const std::vector<StageShard>& shards, const Checkpoint& checkpoint) {
  const StateDivision state(problem, plan);
  GraphBuilder builder(problem.topology, problem.constants);
  std::vector<int> limited;
  std::map<int, int> last_written;  // [device]: its last write
  const auto write = [&](const StageShard& shard, double bytes) {
    TaskLabel label;
    label.activity = Activity::save_checkpoint;
    label.device = shard.device;
    label.pipeline = shard.pipeline;
    label.stage = shard.stage;
    label.rank = shard.rank;
    if (checkpoint.device && *checkpoint.device != shard.device) {
      label.peer = *checkpoint.device;
      limited.push_back(builder.send(builder.channel(shard.device, label.peer, Activity::save_checkpoint),
                                     bytes, {}, label));
    } else {
      const double duration = checkpoint.bandwidth > 0 ? bytes * bits_per_byte / checkpoint.bandwidth : 0;
      int& last = last_written.try_emplace(shard.device, no_index).first->second;
      last = builder.wait(duration, std::array{last}, label);
    }
  };
  const auto is_same_slot = [](const StageShard& a, const StageShard& b) {
    return a.pipeline == b.pipeline && a.stage == b.stage && a.rank == b.rank;
  };
  std::map<std::pair<int, int>, int> writers;  // [layer, share]: the first pipeline that has it
  for (auto shard = shards.begin(), next = shard; shard != shards.end(); shard = next) {
    double bytes = 0;
    bool writes = false;
    for (; next != shards.end() && is_same_slot(*shard, *next); ++next) {
      if (next->share == no_index) continue;
      for (int begin = next->layers.first, end = begin; begin < next->layers.second; begin = end) {
        const auto is_writer = [&](int layer) {
          return writers.try_emplace({layer, next->share}, next->pipeline).first->second == next->pipeline;
        };
        const bool first = is_writer(begin);
        for (++end; end < next->layers.second && is_writer(end) == first;) ++end;
        if (!first) continue;
        writes = true;
        for (const StateKind& kind : state.kinds()) {
          const long long units = state.units_of(*next, kind);
          if (!kind.weights)
            bytes += state.bytes_of(*next, {begin, end}, kind, state.held(*next, kind, units), units);
        }
      }
    }
    if (writes) write(*shard, bytes);
  }
  LabelledGraph graph = builder.take();
  if (checkpoint.bandwidth > 0)
    for (const int task : limited) graph.graph.tasks[at(task)].rate = checkpoint.bandwidth / bits_per_byte;
  return graph;
}

}  // namespace dtfm::sim
