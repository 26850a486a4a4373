#include "planner/export/pytorch_program.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/plan/compression.hpp"
#include "core/base/index.hpp"
#include "core/schedule/schedule.hpp"
#include "core/plan/sharing_replicas.hpp"
#include "planner/export/export_requirements.hpp"
#include "core/io/writers/plan_json.hpp"
#include "core/plan/target.hpp"

namespace dtfm::exporter {
namespace {

using nlohmann::ordered_json;

/// Layers whose gradients are synchronized together, and the ranks that hold them, by pipeline.
struct SyncedLayers {
  std::pair<int, int> layers;
  std::vector<int> ranks;
};

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

class ProgramWriter {
 public:
  explicit ProgramWriter(const ExportBundle& bundle)
      : bundle_(bundle), execution_(bundle.job.execution), layers_(layer_count(bundle.job.model)) {
    rank_of_.assign(bundle.plan.pipelines.size(), std::vector<int>(at(layers_)));
    for (int rank = 0; rank < bundle.world_size(); ++rank)
      for (const auto& [first, last] : assignment(rank).layers)
        for (int layer = first; layer < last; ++layer)
          rank_of_[at(assignment(rank).pipeline)][at(layer)] = rank;
  }

  ordered_json write() {
    const ordered_json job = io::job_json(bundle_.job);
    ordered_json json = {{"schema", "dtfm-program/1"}, {"topology", topology_json()}};
    json["model"] = job.at("model");
    json["training"] = job.at("training");
    json["execution"] = execution_json();
    ordered_json ranks = ordered_json::array();
    for (int rank = 0; rank < bundle_.world_size(); ++rank) ranks.push_back(rank_json(rank));
    json["orders"] = orders_;
    json["pipelines"] = pipelines_json();
    json["ranks"] = std::move(ranks);
    json["sync_groups"] = sync_groups_json();
    json["tied_groups"] = tied_groups_json();
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
    return topology_for("gradient_sync hierarchical depends on the sites of the network");
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
    const std::string order = format_order(
        operation_order(execution_.schedule,
                        {static_cast<int>(pipeline.stages.size()), it.stage, chunks, pipeline.micro_batches},
                        execution_.flush.value_or(0)),
        chunks > 1);
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
    }
    return {{"device", fmt::format("{}:{}", location.host, location.gpu)},
            {"host", location.address},
            {"site", site_of(rank)},
            {"pipeline", it.pipeline},
            {"stage", it.stage},
            {"order", order_number(rank)},
            {"chunks", chunks}};
  }

  /// Only `hierarchical` uses the sites.
  std::string site_of(int rank) const {
    if (execution_.gradient_sync != GradientSync::hierarchical) return bundle_.location(rank).address;
    const Topology& topology = topology_with_sites();
    return topology.sites[at(topology.devices[at(topology_device(rank))].site)].name;
  }

  /// As the simulator groups them (IterationGraph::groups): neighbouring layers with the same holders
  /// together, unless synchronization overlaps, and later layers first.
  std::vector<SyncedLayers> synced_layers() const {
    std::vector<SyncedLayers> groups;
    for (int layer = layers_ - 1; layer >= 0; --layer) {
      std::vector<int> ranks;
      for (const std::vector<int>& of_pipeline : rank_of_) ranks.push_back(of_pipeline[at(layer)]);
      if (!groups.empty() && !execution_.overlap && groups.back().ranks == ranks)
        groups.back().layers.first = layer;
      else
        groups.push_back({{layer, layer + 1}, std::move(ranks)});
    }
    return groups;
  }

  /// The order of a ring, which passes the ranks host by host (HostChannels). Other algorithms keep the order
  /// of the pipelines.
  std::vector<int> sync_order(std::vector<int> ranks) const {
    if (execution_.gradient_sync != GradientSync::ring) return ranks;
    std::map<std::string, std::size_t> first_of_host;
    for (std::size_t i = 0; i < ranks.size(); ++i)
      first_of_host.emplace(bundle_.location(ranks[i]).address, i);
    std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
      return first_of_host.at(bundle_.location(a).address) < first_of_host.at(bundle_.location(b).address);
    });
    return ranks;
  }

  /// Shards per site of a hierarchical reduce-scatter; 0 means as many as the smallest site has ranks.
  int shards() const {
    if (execution_.gradient_sync != GradientSync::hierarchical ||
        !traits(execution_.optimizer_sharding).optimizer)
      return 0;
    return sharing_replicas(topology_with_sites(), plan_on_topology(bundle_));
  }

  ordered_json sync_groups_json() const {
    ordered_json list = ordered_json::array();
    if (bundle_.plan.pipelines.size() < 2) return list;
    const int shards_per_site = shards();
    for (const auto& [layers, ranks] : synced_layers())
      list.push_back({{"layers", {layers.first, layers.second}},
                      {"ranks", sync_order(ranks)},
                      {"compress", is_compressed_among(ranks) && !holds_sharded_tied_copy(layers)
                                       ? ordered_json(name_of(*execution_.compression.gradient_preset))
                                       : ordered_json(nullptr)},
                      {"shards", shards_per_site}});
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
    const auto* transformer = std::get_if<Transformer>(&bundle_.job.model);
    if (!execution_.tied_embedding_sync || !transformer || !transformer->tied) return list;
    for (const std::vector<int>& of_pipeline : rank_of_)
      if (of_pipeline.front() != of_pipeline.back())
        list.push_back({of_pipeline.front(), of_pipeline.back()});
    return list;
  }

  const ExportBundle& bundle_;
  const ExecutionConfig& execution_;
  const int layers_;
  std::vector<std::vector<int>> rank_of_;  // [pipeline][layer]
  std::vector<std::string> orders_;
  std::map<std::string, std::size_t> order_numbers_;
};

}  // namespace

std::string program_json(const ExportBundle& bundle) {
  return ProgramWriter(bundle).write().dump(1) + "\n";
}

}  // namespace dtfm::exporter
