#include "planner/api/schemes/skip_pipe.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "planner/api/schemes/layout.hpp"
#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "simulator/lowering/lowered_network.hpp"

namespace dtfm::api {
namespace {

using StageDevices = std::vector<std::vector<int>>;

/// The number of stages to skip: `share` of them, rounded down.
int skipped_stages(int stages, double share) {
  constexpr double rounding = 1e-9;  // so that 0.3 of 10 stages are 3 in floating point
  return static_cast<int>(std::floor(share * stages + rounding));
}

/// Whether at least one stage is skipped if `share` is above 0, but not all between the first and the last.
bool is_valid_skip(int stages, int skipped, double share) {
  return (skipped > 0 || share == 0) && (skipped == 0 || stages - skipped > 2);
}

/// Assigns consecutive devices to each stage.
StageDevices assign_contiguous(const std::vector<int>& widths) {
  StageDevices stages;
  int next = 0;
  for (const int width : widths) {
    stages.emplace_back(at(width));
    std::iota(stages.back().begin(), stages.back().end(), next);
    next += width;
  }
  return stages;
}

/// Assigns each device, in order, to the stage that is furthest below its share, so that neighbouring
/// devices have different stages.
StageDevices assign_interleaved(const std::vector<int>& widths) {
  StageDevices stages(widths.size());
  const int devices = std::accumulate(widths.begin(), widths.end(), 0);
  for (int device = 0; device < devices; ++device) {
    const auto lead = [&](std::size_t stage) {  // filled share of the stage with one more device
      return static_cast<double>(stages[stage].size() + 1) / widths[stage];
    };
    std::size_t next = 0;
    for (std::size_t stage = 1; stage < stages.size(); ++stage)
      if (lead(stage) < lead(next)) next = stage;
    stages[next].push_back(device);
  }
  return stages;
}

/// Pipeline d has the d-th device of each stage that has more than d devices.
Plan plan_of(const Problem& problem, const StageDevices& stages) {
  Plan plan;
  const int count = static_cast<int>(stages.size()), layers = layer_count(problem.job.model);
  for (int stage = 0; stage < count; ++stage)
    for (std::size_t d = 0; d < stages[at(stage)].size(); ++d) {
      if (d == plan.pipelines.size()) plan.pipelines.emplace_back();
      plan.pipelines[d].stages.push_back({even_split(layers, count, stage), {stages[at(stage)][d]}});
    }
  const int micro_batches = micro_batch_count(problem.job);
  const int pipelines = static_cast<int>(plan.pipelines.size());
  for (int d = 0; d < pipelines; ++d) {
    const auto [begin, end] = even_split(micro_batches, pipelines, d);
    plan.pipelines[at(d)].micro_batches = end - begin;
  }
  return plan;
}

/// Durations of messages without contention, over the links that the simulator uses; the sizes are given
/// uncompressed.
class RouteCache {
 public:
  RouteCache(const Problem& problem, std::vector<int> devices)
      : problem_(problem),
        devices_(std::move(devices)),
        network_(problem.topology, problem.constants, graph_),
        route_infos_(devices_.size()) {}

  search::Message message(int from, int to, double bytes) {
    std::vector<std::optional<RouteInfo>>& from_here = route_infos_[at(from)];
    if (from_here.empty()) from_here.resize(devices_.size());
    std::optional<RouteInfo>& route_info = from_here[at(to)];
    if (!route_info) route_info = make_route_info(devices_[at(from)], devices_[at(to)]);
    return {route_info->overhead_s + bytes * route_info->ratio / route_info->rate, route_info->latency_s,
            route_info->links};
  }

 private:
  struct RouteInfo {
    double overhead_s, latency_s, rate, ratio;
    std::vector<int> links;  // the narrowest ones, which a message saturates
  };

  RouteInfo make_route_info(int from, int to) {
    const Compression& compression = problem_.job.execution.compression;
    const double ratio =
        is_compressed(problem_.topology, compression, from, to) ? compression.activations : 1;
    RouteInfo route_info{
        message_overhead_s(problem_.constants, problem_.topology, from, to), 0, 0, ratio, {}};
    const std::vector<int> links = graph_.routes[at(network_.route(from, to))].links;
    double narrowest = std::numeric_limits<double>::infinity();
    for (const int link : links) {
      narrowest = std::min(narrowest, graph_.links[at(link)].bandwidth);
      route_info.latency_s += graph_.links[at(link)].latency;
    }
    for (const int link : links)
      if (graph_.links[at(link)].bandwidth == narrowest) route_info.links.push_back(link);
    route_info.rate = narrowest * graph_.model.bandwidth_factor;
    return route_info;
  }

  const Problem& problem_;
  std::vector<int> devices_;  // [resource]
  sim::TaskGraph graph_;      // links only
  sim::LoweredNetwork network_;
  std::vector<std::vector<std::optional<RouteInfo>>> route_infos_;  // by sender and receiver
};

/// At least 1, because the simulator decides whether a layout fits the memory.
int routed_in_flight_limit(const Topology& topology, int device, const sim::StageLoad& load) {
  const auto held = max_in_flight(topology, device, load);
  return held ? static_cast<int>(std::clamp(*held, 1.0, 1e6)) : std::numeric_limits<int>::max();
}

/// Time that a device compresses and decompresses in the forward or the backward of a micro-batch, if all
/// messages are compressed; otherwise 0, because it depends on the path.
double compression_s(const Problem& problem, const sim::LoadModel& model, const Stage& stage,
                     const sim::StageLoad& load) {
  if (problem.job.execution.compression.bandwidth_threshold) return 0;
  const auto [begin, end] = stage.layers;
  const double in = begin > 0 ? model.of({{0, begin}, stage.devices}).output_bytes : 0;
  return model.activation_compression_s(in + (end < model.layers() ? load.output_bytes : 0));
}

/// The devices that compute each stage, in the order of the layers.
std::vector<std::vector<search::StageResource>> stage_resources(const Problem& problem, const Plan& plan) {
  const sim::LoadModel model(problem, plan);
  std::vector<std::vector<search::StageResource>> stages;
  for (int i = 0; at(i) < plan.pipelines.size(); ++i) {
    const std::vector<Stage>& its = plan.pipelines[at(i)].stages;
    const std::vector<Stage>& all = plan.pipelines.front().stages;
    stages.resize(all.size());
    for (int s = 0; at(s) < its.size(); ++s) {
      const auto same = std::find_if(all.begin(), all.end(),
                                     [&](const Stage& it) { return it.layers == its[at(s)].layers; });
      const sim::StageLoad load = model.of(its[at(s)]);
      const double codec_s = compression_s(problem, model, its[at(s)], load);
      stages[static_cast<std::size_t>(same - all.begin())].push_back(
          {{i, s},
           load.forward_s + codec_s,
           load.backward_s + codec_s,
           load.output_bytes,
           routed_in_flight_limit(problem.topology, its[at(s)].devices.front(), load)});
    }
  }
  return stages;
}

/// Whether all outputs have the same size, so that a stage can process the output of any before it.
bool outputs_are_uniform(const std::vector<std::vector<search::StageResource>>& stages) {
  return std::all_of(stages.begin(), stages.end() - 1, [&](const std::vector<search::StageResource>& stage) {
    return stage.front().output_bytes == stages.front().front().output_bytes;
  });
}

}  // namespace

std::vector<int> stage_widths(int devices, int stages, int skipped) {
  DTFM_ASSERT(devices >= stages && (skipped == 0 || stages - skipped > 2));
  std::vector<double> shares(at(stages), 1);
  for (int stage = 1; stage + 1 < stages; ++stage)
    shares[at(stage)] = static_cast<double>(stages - skipped - 2) / (stages - 2);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  std::vector<int> widths(shares.size(), 1);
  for (int left = devices - stages; left > 0; --left) {
    const auto deficit = [&](std::size_t stage) { return devices * shares[stage] / sum - widths[stage]; };
    std::size_t next = 0;
    for (std::size_t stage = 1; stage < widths.size(); ++stage)
      if (deficit(stage) > deficit(next)) next = stage;
    ++widths[next];
  }
  return widths;
}

std::vector<Layout> skip_pipe_layouts(const Problem& problem, const SchemeOptions& options) {
  std::vector<Layout> layouts;
  const int layers = layer_count(problem.job.model), devices = problem.topology->size();
  for (int stages = 1; stages <= layers; ++stages) {
    const int skipped = skipped_stages(stages, options.skip);
    if (layers % stages != 0 || stages > devices || !is_valid_skip(stages, skipped, options.skip)) continue;
    for (const auto place : {assign_contiguous, assign_interleaved}) {
      Layout layout{problem.job, plan_of(problem, place(stage_widths(devices, stages, skipped)))};
      set_decisions(layout, 1, Schedule::paths, problem.job.execution.gradient_sync);
      layout.skipped = skipped;
      layouts.push_back(std::move(layout));
    }
  }
  if (layouts.empty())
    throw NoLayout(
        fmt::format("no number of stages divides {} layers, fits {} devices, and lets a "
                    "micro-batch skip a share of {} of them and visit three",
                    layers, problem.topology->size(), options.skip));
  return layouts;
}

search::Routing routing_of(const Problem& problem, const Layout& layout) {
  Problem own = problem;
  own.job = layout.job;
  search::RoutingProblem routing;
  routing.stages = stage_resources(own, layout.plan);
  routing.micro_batches = micro_batch_count(layout.job);
  routing.skipped = layout.skipped.value();
  routing.allow_swaps = outputs_are_uniform(routing.stages);
  if (routing.skipped > 0 && !routing.allow_swaps)
    throw NoLayout(
        fmt::format("none of {} stages can be skipped: their outputs differ in size", routing.stages.size()));
  std::vector<int> devices;
  for (const auto& stage : routing.stages)
    for (const search::StageResource& it : stage)
      devices.push_back(
          layout.plan.pipelines[at(it.place.pipeline)].stages[at(it.place.stage)].devices.front());
  RouteCache route_cache(own, std::move(devices));
  routing.message = [&](int from, int to, double bytes) { return route_cache.message(from, to, bytes); };
  return search::route(routing);
}

}  // namespace dtfm::api
