#include "core/model/operator_graph.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm {
namespace {

using Neighbours = std::vector<std::vector<int>>;

void sort_unique(std::vector<int>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

/// By operator: the operators that it reads, distinct.
Neighbours inputs_of(const OperatorGraph& graph) {
  Neighbours inputs(graph.operators.size());
  for (const auto& [from, to] : graph.edges) inputs[at(to)].push_back(from);
  for (std::vector<int>& list : inputs) sort_unique(list);
  return inputs;
}

/// By operator: the operators that read it, distinct.
Neighbours consumers_of(const Neighbours& inputs) {
  Neighbours consumers(inputs.size());
  for (std::size_t to = 0; to < inputs.size(); ++to)
    for (const int from : inputs[to]) consumers[at(from)].push_back(static_cast<int>(to));
  return consumers;
}

/// Topological order without the operators on cycles and their successors.
std::vector<int> topological_prefix(const Neighbours& inputs) {
  const Neighbours consumers = consumers_of(inputs);
  std::vector<std::size_t> unmet_inputs;
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    unmet_inputs.push_back(inputs[i].size());
    if (inputs[i].empty()) ready.push(static_cast<int>(i));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int consumer : consumers[at(order.back())])
      if (--unmet_inputs[at(consumer)] == 0) ready.push(consumer);
  }
  return order;
}

/// Tracks which tensors are live while operators run one by one.
class LiveTensors {
 public:
  LiveTensors(const OperatorGraph& graph, const Neighbours& inputs)
      : graph_(graph), inputs_(inputs), consumers_left_(inputs.size()) {
    for (const std::vector<int>& list : inputs)
      for (const int input : list) ++consumers_left_[at(input)];
  }

  void run(int it) {
    for (const int input : inputs_[at(it)])
      if (--consumers_left_[at(input)] == 0) live_.erase(input);
    if (consumers_left_[at(it)] > 0 && graph_.operators[at(it)].output.value() > 0) live_.insert(it);
  }

  int count() const { return static_cast<int>(live_.size()); }

  Bytes size() const {
    Bytes sum;
    for (const int it : live_) sum += graph_.operators[at(it)].output;
    return sum;
  }

 private:
  const OperatorGraph& graph_;
  const Neighbours& inputs_;
  std::vector<int> consumers_left_;
  std::set<int> live_;
};

std::string layer_name(const OperatorGraph& graph, const std::vector<int>& members) {
  const std::string &first = graph.operators[at(members.front())].name,
                    &last = graph.operators[at(members.back())].name;
  return members.size() == 1 ? first : first + "…" + last;
}

/// The layer that consists of these operators, except its output.
Layer merge_operators(const OperatorGraph& graph, const Neighbours& inputs, const std::vector<int>& members) {
  Layer layer;
  layer.name = layer_name(graph, members);
  std::vector<int> kept;
  for (const int member : members) {
    const Operator& it = graph.operators[at(member)];
    layer.parameters += it.parameters;
    layer.forward += it.forward;
    layer.backward += it.backward;
    if (it.activation_memory)
      layer.activation_memory += *it.activation_memory;
    else
      kept.insert(kept.end(), inputs[at(member)].begin(), inputs[at(member)].end());
  }
  sort_unique(kept);
  for (const int tensor : kept) layer.activation_memory += graph.operators[at(tensor)].output;
  return layer;
}

}  // namespace

std::vector<int> find_cycle(const OperatorGraph& graph) {
  const Neighbours inputs = inputs_of(graph);
  std::vector<bool> unsorted(graph.operators.size(), true);
  for (const int it : topological_prefix(inputs)) unsorted[at(it)] = false;
  const auto start = std::find(unsorted.begin(), unsorted.end(), true);
  if (start == unsorted.end()) return {};
  // Every operator that was not sorted reads another such one, so following these edges ends in a cycle.
  std::vector<int> path;
  std::vector<bool> seen(graph.operators.size());
  int current = static_cast<int>(start - unsorted.begin());
  while (!seen[at(current)]) {
    seen[at(current)] = true;
    path.push_back(current);
    const std::vector<int>& list = inputs[at(current)];
    current = *std::find_if(list.begin(), list.end(), [&](int input) { return unsorted[at(input)]; });
  }
  std::vector<int> cycle(std::find(path.begin(), path.end(), current), path.end());
  std::reverse(cycle.begin(), cycle.end());
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  return cycle;
}

std::optional<int> find_disconnected_operator(const OperatorGraph& graph) {
  Neighbours neighbours(graph.operators.size());
  for (const auto& [from, to] : graph.edges) {
    neighbours[at(from)].push_back(to);
    neighbours[at(to)].push_back(from);
  }
  std::vector<bool> reached(graph.operators.size());
  std::vector<int> frontier;
  const auto reach = [&](int it) {
    if (!reached[at(it)]) frontier.push_back(it);
    reached[at(it)] = true;
  };
  if (!reached.empty()) reach(0);
  while (!frontier.empty()) {
    const int it = frontier.back();
    frontier.pop_back();
    for (const int neighbour : neighbours[at(it)]) reach(neighbour);
  }
  const auto disconnected = std::find(reached.begin(), reached.end(), false);
  if (disconnected == reached.end()) return std::nullopt;
  return static_cast<int>(disconnected - reached.begin());
}

std::vector<int> topological_order(const OperatorGraph& graph) {
  std::vector<int> order = topological_prefix(inputs_of(graph));
  DTFM_ASSERT(order.size() == graph.operators.size());
  return order;
}

std::vector<Layer> partition_into_layers(const OperatorGraph& graph, int max_live_tensors) {
  DTFM_ASSERT(!graph.operators.empty());
  const Neighbours inputs = inputs_of(graph), consumers = consumers_of(inputs);
  const std::vector<int> order = topological_order(graph);
  LiveTensors live(graph, inputs);
  std::vector<Layer> layers;
  std::vector<int> members;
  for (const int it : order) {
    live.run(it);
    members.push_back(it);
    if (it == order.back() || live.count() > max_live_tensors) continue;
    layers.push_back(merge_operators(graph, inputs, members));
    layers.back().output = live.size();
    members.clear();
  }
  layers.push_back(merge_operators(graph, inputs, members));
  for (const int it : members)
    if (consumers[at(it)].empty()) layers.back().output += graph.operators[at(it)].output;
  return layers;
}

}  // namespace dtfm
