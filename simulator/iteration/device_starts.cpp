#include "simulator/iteration/device_starts.hpp"

#include <algorithm>

#include "core/base/index.hpp"

namespace dtfm::sim {

std::vector<DeviceEnd> device_ends(const LabelledGraph& graph, const Replay& replay) {
  std::vector<DeviceEnd> ends;
  for (const auto& [device, task] : graph.ends) ends.push_back({device, replay.tasks[at(task)].finish});
  return ends;
}

double set_starts(LabelledGraph& graph, const std::vector<DeviceEnd>& ends, double barrier) {
  const auto end_of = [&](int device) {
    const auto it = std::partition_point(ends.begin(), ends.end(),
                                         [&](const DeviceEnd& end) { return end.device < device; });
    return it == ends.end() || it->device != device ? barrier : it->date;
  };
  double first = barrier;
  for (const auto& [device, task] : graph.starts) first = std::min(first, end_of(device));
  for (const auto& [device, task] : graph.starts) graph.graph.tasks[at(task)].amount = end_of(device) - first;
  return first;
}

SteadyIteration replay_steady(LabelledGraph& graph, const StopFunction& stop) {
  constexpr int iterations = 3;  // SimOptions::iterations
  ReplayOptions options;
  options.stop = stop;
  options.is_repeated = true;
  const auto replay_from = [&](double start) {
    options.start = start;
    return replay(graph.graph, options);
  };
  SteadyIteration last{replay_from(set_starts(graph, {}, 0)), 0, 0};
  last.seconds = last.replay.makespan;
  const double first_end = last.replay.makespan;
  for (int i = 1; i < iterations && !graph.ends.empty() && last.replay.ended == ReplayEnd::finished; ++i) {
    last.start = set_starts(graph, device_ends(graph, last.replay), last.replay.makespan);
    last.replay = replay_from(last.start);
    last.seconds = (last.replay.makespan - first_end) / i;
  }
  return last;
}

}  // namespace dtfm::sim
