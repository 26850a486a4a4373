#include "simulator/run/recovery_graph.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <map>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/shards.hpp"
#include "simulator/model/stage_load.hpp"

namespace dtfm {
namespace {

/// A place in the plan that holds the newest weights.
struct Source {
  int device, rank, degree;
  std::pair<int, int> layers;
};

class FetchList {
 public:
  FetchList(const Problem& problem, const Plan& computed, const std::vector<bool>& fresh)
      : problem_(problem), loads_(problem, computed), busy_s_(at(problem.topology.size())) {
    for (const Pipeline& pipeline : computed.pipelines)
      for (const Stage& stage : pipeline.stages)
        for (int rank = 0; at(rank) < stage.devices.size(); ++rank)
          if (const int device = stage.devices[at(rank)]; fresh[at(device)])
            sources_.push_back({device, rank, static_cast<int>(stage.devices.size()), stage.layers});
  }

  /// All layers of `stage` for its device `rank`, part by part.
  void add(const Stage& stage, int rank, Fetch fetch) {
    const int degree = static_cast<int>(stage.devices.size());
    fetch.parts = degree;
    for (const Source& source : sources_)
      if (source.layers.first < stage.layers.second && source.layers.second > stage.layers.first)
        fetch.parts = std::max(fetch.parts, source.degree);
    for (fetch.part = 0; fetch.part < fetch.parts; ++fetch.part)
      if (rank_of_part(fetch.part, fetch.parts, degree) == rank) add_part(stage, fetch);
  }
  std::vector<Fetch> take() { return std::move(fetches_); }

 private:
  void add_part(const Stage& stage, Fetch fetch) {
    for (int layer = stage.layers.first; layer < stage.layers.second; layer = fetch.layers.second) {
      fetch.from.reset();
      fetch.layers = {layer, next_source_after(layer, stage.layers.second, fetch)};
      choose_source(stage, fetch);
      fetch.bytes = bytes_of(stage, fetch.layers, fetch.parts);
      fetches_.push_back(fetch);
    }
  }

  double bytes_of(const Stage& stage, std::pair<int, int> layers, int parts) const {
    const double of_device = loads_.of({layers, stage.devices}).weight_bytes;
    return of_device * (static_cast<double>(stage.devices.size()) / parts);
  }

  static bool holds_part(const Source& source, const Fetch& fetch) {
    return rank_of_part(fetch.part, fetch.parts, source.degree) == source.rank;
  }

  /// The first layer after `layer`, at most `end`, with which a source begins.
  int next_source_after(int layer, int end, const Fetch& fetch) const {
    for (const Source& source : sources_)
      if (source.layers.first > layer && source.layers.first < end && holds_part(source, fetch))
        end = source.layers.first;
    return end;
  }

  void choose_source(const Stage& stage, Fetch& fetch) {
    const int first = fetch.layers.first;
    double earliest = std::numeric_limits<double>::infinity();
    const Source* chosen = nullptr;
    double chosen_s = 0;
    for (const Source& source : sources_) {
      if (source.layers.first > first || source.layers.second <= first || !holds_part(source, fetch))
        continue;
      const auto link = problem_.topology.link(source.device, fetch.to);
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
  }

  const Problem& problem_;
  const LoadModel loads_;
  std::vector<Source> sources_;
  std::vector<double> busy_s_;  // of each device, with what it has to send
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

std::vector<Fetch> fetches_of(const Problem& problem, const Plan& computed, const std::vector<bool>& running,
                              const std::vector<bool>& fresh) {
  FetchList fetches(problem, computed, fresh);
  for (int pipeline = 0; at(pipeline) < computed.pipelines.size(); ++pipeline) {
    if (!running[at(pipeline)]) continue;
    const std::vector<Stage>& stages = computed.pipelines[at(pipeline)].stages;
    for (int stage = 0; at(stage) < stages.size(); ++stage)
      for (int rank = 0; at(rank) < stages[at(stage)].devices.size(); ++rank) {
        const int device = stages[at(stage)].devices[at(rank)];
        if (!fresh[at(device)]) fetches.add(stages[at(stage)], rank, {device, pipeline, stage});
      }
  }
  return fetches.take();
}

LabelledGraph recovery_graph(const Problem& problem, const std::vector<Fetch>& fetches,
                             const std::optional<Checkpoint>& checkpoint) {
  GraphBuilder builder(problem.topology, problem.constants);
  std::vector<int> limited;      // tasks that the checkpoint's bandwidth holds back
  std::map<int, int> last_read;  // of each device: what comes next waits for it
  for (const Fetch& fetch : fetches) {
    DTFM_ASSERT(fetch.from || checkpoint);
    const std::optional<int> from = fetch.from ? fetch.from : checkpoint->device;
    if (from && *from != fetch.to) {
      const Channel channel = builder.channel(*from, fetch.to, Activity::fetch);
      const int task = builder.send(channel, fetch.bytes, {}, label_of(fetch));
      if (!fetch.from && checkpoint->bandwidth > 0) limited.push_back(task);
    } else {
      // Read from a store that all are equally near to, or from a device's own disk.
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

}  // namespace dtfm
