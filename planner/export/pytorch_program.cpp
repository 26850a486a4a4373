#include "planner/export/pytorch_program.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/plan/communication.hpp"
#include "core/plan/compression.hpp"
#include "core/base/index.hpp"
#include "core/schedule/schedule.hpp"
#include "core/plan/sharing_replicas.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/export/export_requirements.hpp"
#include "core/io/writers/plan_json.hpp"
#include "core/plan/target.hpp"

namespace dtfm::exporter {
namespace {

using nlohmann::ordered_json;

/// "F0 F1 B0 B1", "F0/0 F0/1 …" with several chunks.
std::string format_order(const std::vector<Operation>& order, bool has_chunks) {
  fmt::memory_buffer text;
  for (const Operation& it : order) {
    const char kind = it.kind == Operation::Kind::forward    ? 'F'
                      : it.kind == Operation::Kind::backward ? 'B'
                                                             : 'W';
    fmt::format_to(std::back_inserter(text), "{}{}{}", text.size() > 0 ? " " : "", kind, it.micro_batch);
    if (has_chunks) fmt::format_to(std::back_inserter(text), "/{}", it.chunk);
  }
  return fmt::to_string(text);
}

/// "2", "0.1", "" for no part.
std::string format_part(const CollectivePart& part) {
  if (part.shard == no_index) return "";
  return part.chunk == no_index ? fmt::format("{}", part.shard)
                                : fmt::format("{}.{}", part.shard, part.chunk);
}

/// By member: "0+ >1:2 <3:1, 1= >1:1.0", steps with their numbers, in which received elements are added (+)
/// or final (=), and messages to (>) and from (<) other members of a shard, or of a chunk of a shard.
std::vector<std::string> format_steps(const CollectiveMessages& list, std::size_t members) {
  std::vector<std::string> steps(members);
  std::vector<std::pair<int, bool>> last(members, {no_index, false});
  const auto add = [&](int member, int peer, char direction, const CollectivePhase& phase,
                       const CollectiveMessage& message) {
    std::string& text = steps[at(member)];
    const std::pair step(phase.number, phase.adds);
    if (std::exchange(last[at(member)], step) != step)
      text += fmt::format("{}{}{}", text.empty() ? "" : ", ", phase.number, phase.adds ? '+' : '=');
    text += fmt::format(" {}{}:{}", direction, peer, format_part({message.shard, message.chunk}));
  };
  for (const CollectivePhase& phase : list.phases)
    for (const CollectiveMessage& it : phase.messages) {
      add(it.from, it.to, '>', phase, it);
      add(it.to, it.from, '<', phase, it);
    }
  return steps;
}

class ProgramWriter {
 public:
  explicit ProgramWriter(const ExportBundle& bundle)
      : bundle_(bundle), execution_(bundle.job.execution), layers_(layer_count(bundle.job.model)) {
    rank_of_.assign(bundle.plan.pipelines.size(), std::vector<int>(at(layers_)));
    Plan plan = bundle.plan;
    plan.execution = execution_;
    communications_ = replica_communications(LayerBytes(bundle.job, execution_), expand_virtual_stages(plan));
    rank_of_device_.resize(bundle.locations.size());
    for (int rank = 0; rank < bundle.world_size(); ++rank)
      rank_of_device_[at(assignment(rank).device)] = rank;
    for (int rank = 0; rank < bundle.world_size(); ++rank)
      for (const auto& [first, last] : assignment(rank).layers)
        for (int layer = first; layer < last; ++layer)
          rank_of_[at(assignment(rank).pipeline)][at(layer)] = rank;
  }

  ordered_json write() {
    const ordered_json job = io::job_json(bundle_.job);
    ordered_json json = {{"schema", "dtfm-program/2"}, {"topology", topology_json()}};
    json["model"] = job.at("model");
    json["training"] = job.at("training");
    json["execution"] = execution_json();
    ordered_json ranks = ordered_json::array();
    for (int rank = 0; rank < bundle_.world_size(); ++rank) ranks.push_back(rank_json(rank));
    ordered_json groups = sync_groups_json();
    const std::size_t pair = collective_number(pair_all_reduce, {{0}, {1}}, {});
    json["orders"] = orders_;
    json["pipelines"] = pipelines_json();
    json["ranks"] = std::move(ranks);
    json["collectives"] = std::move(collectives_);
    json["sync_groups"] = std::move(groups);
    json["tied_groups"] = tied_groups_json();
    json["pair_all_reduce"] = pair;
    return json;
  }

 private:
  const RankAssignment& assignment(int rank) const { return bundle_.assignments[at(rank)]; }

  /// The index of the rank's device in the topology.
  int topology_device(int rank) const { return bundle_.topology_device[at(assignment(rank).device)]; }

  /// Throws NotRunnable without a topology.
  const Topology& topology_for(const std::string& what) const {
    if (!bundle_.topology) reject(name_of(Target::pytorch), fmt::format("{}; add --topology FILE", what));
    return *bundle_.topology;
  }
  const Topology& topology_with_links() const {
    return topology_for("which links are slow enough for compression depends on the network");
  }
  const Topology& topology_with_sites() const {
    return topology_for(fmt::format("gradient_sync {} depends on the sites of the network",
                                    name_of(execution_.gradient_sync)));
  }

  ordered_json topology_json() const {
    if (!bundle_.topology) return ordered_json::object();
    return {{"name", bundle_.topology->name}, {"fingerprint", bundle_.topology->fingerprint()}};
  }

  ordered_json execution_json() const {
    ordered_json json = {{"schedule", name_of(execution_.schedule)},
                         {"gradient_sync", name_of(execution_.gradient_sync)},
                         {"optimizer_sharding", name_of(execution_.optimizer_sharding)},
                         {"overlap", execution_.overlap},
                         {"tied_embedding_sync", execution_.tied_embedding_sync},
                         {"blocking_sends", traits(execution_.schedule).is_blocking}};
    if (execution_.flush) json["flush"] = *execution_.flush;
    return json;
  }

  ordered_json pipelines_json() const {
    ordered_json list = ordered_json::array();
    int first = 0;
    for (const Pipeline& pipeline : bundle_.plan.pipelines) {
      list.push_back({{"micro_batches", pipeline.micro_batches}, {"first_micro_batch", first}});
      first += pipeline.micro_batches;
    }
    return list;
  }

  /// Index of the rank's order in `orders_`; equal orders share one entry.
  std::size_t order_number(int rank) {
    const RankAssignment& it = assignment(rank);
    const Pipeline& pipeline = bundle_.plan.pipelines[at(it.pipeline)];
    const int chunks = static_cast<int>(it.layers.size());
    const std::vector<PlannedOrder> planned = planned_orders(pipeline, execution_.schedule);
    const PipelinePosition position{static_cast<int>(pipeline.stages.size()), it.stage, chunks,
                                    pipeline.micro_batches,
                                    planned.empty() ? PlannedOrder{} : planned[at(it.stage)]};
    const std::string order = format_order(
        operation_order(execution_.schedule, position, execution_.flush.value_or(0)), chunks > 1);
    const auto [known, is_new] = order_numbers_.emplace(order, orders_.size());
    if (is_new) orders_.push_back(order);
    return known->second;
  }

  /// Whether messages of either direction are compressed: the program has one setting for both.
  bool is_compressed_between(int a, int b) const {
    const Compression& compression = execution_.compression;
    if (!compression.activation_preset || a == b) return false;
    if (!compression.bandwidth_threshold) return true;
    const Topology& topology = topology_with_links();
    return is_compressed(topology, compression, topology_device(a), topology_device(b)) ||
           is_compressed(topology, compression, topology_device(b), topology_device(a));
  }

  bool is_compressed_among(const std::vector<int>& ranks) const {
    const Compression& compression = execution_.compression;
    if (!compression.gradient_preset) return false;
    if (!compression.bandwidth_threshold) return true;
    const Topology& topology = topology_with_links();
    std::vector<int> devices;
    for (const int rank : ranks) devices.push_back(topology_device(rank));
    return is_compressed(topology, compression, devices);
  }

  /// The rank at the other side of a boundary of the pipeline, before layer `layer`; null at its ends.
  ordered_json neighbour_json(int pipeline, int layer) const {
    if (layer < 0 || layer >= layers_) return nullptr;
    return rank_of_[at(pipeline)][at(layer)];
  }

  ordered_json compression_json(int rank, const ordered_json& neighbour) const {
    if (neighbour.is_null() || !is_compressed_between(rank, neighbour.get<int>())) return nullptr;
    return name_of(*execution_.compression.activation_preset);
  }

  ordered_json rank_json(int rank) {
    const RankAssignment& it = assignment(rank);
    const GpuLocation& location = bundle_.location(rank);
    ordered_json chunks = ordered_json::array();
    for (const auto& [first, last] : it.layers) {
      const ordered_json before = neighbour_json(it.pipeline, first - 1),
                         after = neighbour_json(it.pipeline, last);
      chunks.push_back({{"layers", {first, last}},
                        {"input_from", before},
                        {"output_to", after},
                        {"compress_input", compression_json(rank, before)},
                        {"compress_output", compression_json(rank, after)}});
      if (const RecomputationTraits& recomputation = traits(execution_.recomputation);
          recomputation.is_per_stage())
        chunks.back()[recomputation.layers_name] = recomputed_layers(
            execution_, bundle_.plan.pipelines[at(it.pipeline)].stages[at(it.stage)], last - first);
    }
    return {{"device", fmt::format("{}:{}", location.host, location.gpu)},
            {"host", location.address},
            {"pipeline", it.pipeline},
            {"stage", it.stage},
            {"order", order_number(rank)},
            {"chunks", chunks}};
  }

  std::vector<int> ranks_of(const Communication& it) const {
    std::vector<int> ranks;
    for (const int device : it.devices) ranks.push_back(rank_of_device_[at(device)]);
    return ranks;
  }

  std::vector<CollectiveMember> members(const std::vector<int>& ranks) const {
    const Topology* topology =
        traits(execution_.gradient_sync).shares_by_site() ? &topology_with_sites() : bundle_.topology.get();
    std::map<std::string, int> hosts;
    std::vector<CollectiveMember> members;
    for (const int rank : ranks) {
      const int host =
          hosts.emplace(bundle_.location(rank).address, static_cast<int>(hosts.size())).first->second;
      const int device = topology ? topology_device(rank) : no_index;
      members.push_back({host, device == no_index ? 0 : topology->devices[at(device)].site});
    }
    return members;
  }

  /// Index of the steps in `collectives_`; equal ones share one entry.
  std::size_t collective_number(GradientSync sync, const std::vector<CollectiveMember>& members,
                                const CollectiveOptions& options) {
    const CollectiveMessages list = collective_messages(sync, members, options);
    ordered_json json = {
        {"shards", list.shards}, {"chunks", list.chunks}, {"steps", format_steps(list, members.size())}};
    if (options.collective == Collective::reduce_scatter)
      for (const CollectivePart& part : summed_parts(list, static_cast<int>(members.size())))
        json["owned"].push_back(format_part(part));
    const auto [known, is_new] = collective_numbers_.emplace(json.dump(), collectives_.size());
    if (is_new) collectives_.push_back(std::move(json));
    return known->second;
  }

  ordered_json sync_groups_json() {
    ordered_json list = ordered_json::array();
    if (bundle_.plan.pipelines.size() < 2) return list;
    const int site_shards =
        traits(execution_.optimizer_sharding).optimizer && traits(execution_.gradient_sync).shares_by_site()
            ? sharing_replicas(topology_with_sites(), plan_on_topology(bundle_))
            : 0;
    for (const Communication& it : communications_) {
      if (it.payload != Payload::gradients) continue;
      const std::vector<int> ranks = ranks_of(it);
      ordered_json group = {{"layers", {it.layers.first, it.layers.second}},
                            {"ranks", ranks},
                            {"compress", is_compressed_among(ranks) && !holds_sharded_tied_copy(it.layers)
                                             ? ordered_json(name_of(*execution_.compression.gradient_preset))
                                             : ordered_json(nullptr)}};
      const auto add = [&](const char* key, Collective collective) {
        group[key] = collective_number(it.algorithm, members(ranks), {collective, site_shards});
      };
      if (it.collective == Collective::reduce_scatter) {
        add("reduce_scatter", Collective::reduce_scatter);
        add("all_gather", Collective::all_gather);
      } else {
        add("all_reduce", Collective::all_reduce);
      }
      list.push_back(std::move(group));
    }
    return list;
  }

  /// Whether the optimizer is sharded and these layers hold a copy of the tied matrix. The two copies are
  /// synchronized in different groups, in which compression rounds differently, so the copies would diverge.
  bool holds_sharded_tied_copy(std::pair<int, int> layers) const {
    return traits(execution_.optimizer_sharding).optimizer && !tied_groups_json().empty() &&
           (layers.first == 0 || layers.second == layers_);
  }

  /// In every pipeline, the ranks of the first and of the last layer if they share a matrix.
  ordered_json tied_groups_json() const {
    ordered_json list = ordered_json::array();
    for (const Communication& it : communications_)
      if (it.payload == Payload::tied_gradients) list.push_back(ranks_of(it));
    return list;
  }

  const ExportBundle& bundle_;
  const ExecutionConfig& execution_;
  const int layers_;
  std::vector<std::vector<int>> rank_of_;  // [pipeline][layer]
  std::vector<int> rank_of_device_;        // [location]
  std::vector<Communication> communications_;
  std::vector<std::string> orders_;
  std::map<std::string, std::size_t> order_numbers_;
  ordered_json collectives_ = ordered_json::array();
  std::map<std::string, std::size_t> collective_numbers_;
};

}  // namespace

std::string program_json(const ExportBundle& bundle) {
  return ProgramWriter(bundle).write().dump(1) + "\n";
}

}  // namespace dtfm::exporter
