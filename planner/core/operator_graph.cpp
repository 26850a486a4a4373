#include "planner/core/operator_graph.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <set>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"

namespace dtfm {
namespace {

using Neighbours = std::vector<std::vector<int>>;

void make_unique(std::vector<int>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

/// Of every operator, those that it reads, each once.
Neighbours inputs_of(const OperatorGraph& graph) {
  Neighbours inputs(graph.operators.size());
  for (const auto& [from, to] : graph.edges) inputs[at(to)].push_back(from);
  for (std::vector<int>& list : inputs) make_unique(list);
  return inputs;
}

/// Of every operator, those that read it, each once.
Neighbours readers_of(const Neighbours& inputs) {
  Neighbours readers(inputs.size());
  for (std::size_t to = 0; to < inputs.size(); ++to)
    for (const int from : inputs[to]) readers[at(from)].push_back(static_cast<int>(to));
  return readers;
}

/// Without the operators of cycles and what comes after them.
std::vector<int> sorted_part(const Neighbours& inputs) {
  const Neighbours readers = readers_of(inputs);
  std::vector<std::size_t> missing;
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    missing.push_back(inputs[i].size());
    if (inputs[i].empty()) ready.push(static_cast<int>(i));
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int reader : readers[at(order.back())])
      if (--missing[at(reader)] == 0) ready.push(reader);
  }
  return order;
}

/// The tensors that live while operators are run one by one.
class LiveTensors {
 public:
  LiveTensors(const OperatorGraph& graph, const Neighbours& inputs)
      : graph_(graph), inputs_(inputs), readers_left_(inputs.size()) {
    for (const std::vector<int>& list : inputs)
      for (const int input : list) ++readers_left_[at(input)];
  }

  void run(int it) {
    for (const int input : inputs_[at(it)])
      if (--readers_left_[at(input)] == 0) live_.erase(input);
    if (readers_left_[at(it)] > 0 && graph_.operators[at(it)].output.value() > 0) live_.insert(it);
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
  std::vector<int> readers_left_;
  std::set<int> live_;
};

std::string tasklet_name(const OperatorGraph& graph, const std::vector<int>& members) {
  const std::string &first = graph.operators[at(members.front())].name,
                    &last = graph.operators[at(members.back())].name;
  return members.size() == 1 ? first : first + "…" + last;
}

/// A layer of these operators, but for its output.
Layer joined(const OperatorGraph& graph, const Neighbours& inputs, const std::vector<int>& members) {
  Layer layer;
  layer.name = tasklet_name(graph, members);
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
  make_unique(kept);
  for (const int tensor : kept) layer.activation_memory += graph.operators[at(tensor)].output;
  return layer;
}

}  // namespace

std::vector<int> cycle_of(const OperatorGraph& graph) {
  const Neighbours inputs = inputs_of(graph);
  std::vector<bool> unsorted(graph.operators.size(), true);
  for (const int it : sorted_part(inputs)) unsorted[at(it)] = false;
  const auto start = std::find(unsorted.begin(), unsorted.end(), true);
  if (start == unsorted.end()) return {};
  // What has not been sorted reads something that has not; going on from one to the next ends in a cycle.
  std::vector<int> path;
  std::vector<bool> seen(graph.operators.size());
  int here = static_cast<int>(start - unsorted.begin());
  while (!seen[at(here)]) {
    seen[at(here)] = true;
    path.push_back(here);
    const std::vector<int>& list = inputs[at(here)];
    here = *std::find_if(list.begin(), list.end(), [&](int input) { return unsorted[at(input)]; });
  }
  std::vector<int> cycle(std::find(path.begin(), path.end(), here), path.end());
  std::reverse(cycle.begin(), cycle.end());
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  return cycle;
}

std::optional<int> separate_operator(const OperatorGraph& graph) {
  Neighbours neighbours(graph.operators.size());
  for (const auto& [from, to] : graph.edges) {
    neighbours[at(from)].push_back(to);
    neighbours[at(to)].push_back(from);
  }
  std::vector<bool> reached(graph.operators.size());
  std::vector<int> open;
  const auto reach = [&](int it) {
    if (!reached[at(it)]) open.push_back(it);
    reached[at(it)] = true;
  };
  if (!reached.empty()) reach(0);
  while (!open.empty()) {
    const int it = open.back();
    open.pop_back();
    for (const int neighbour : neighbours[at(it)]) reach(neighbour);
  }
  const auto separate = std::find(reached.begin(), reached.end(), false);
  if (separate == reached.end()) return std::nullopt;
  return static_cast<int>(separate - reached.begin());
}

std::vector<int> topological_order(const OperatorGraph& graph) {
  std::vector<int> order = sorted_part(inputs_of(graph));
  DTFM_ASSERT(order.size() == graph.operators.size());
  return order;
}

std::vector<Layer> tasklets(const OperatorGraph& graph, int most_live) {
  DTFM_ASSERT(!graph.operators.empty());
  const Neighbours inputs = inputs_of(graph), readers = readers_of(inputs);
  const std::vector<int> order = topological_order(graph);
  LiveTensors live(graph, inputs);
  std::vector<Layer> layers;
  std::vector<int> members;
  for (const int it : order) {
    live.run(it);
    members.push_back(it);
    if (it == order.back() || live.count() > most_live) continue;
    layers.push_back(joined(graph, inputs, members));
    layers.back().output = live.size();
    members.clear();
  }
  layers.push_back(joined(graph, inputs, members));
  for (const int it : members)
    if (readers[at(it)].empty()) layers.back().output += graph.operators[at(it)].output;
  return layers;
}

}  // namespace dtfm
