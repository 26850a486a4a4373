#include "core/io/readers/operator_graph_reader.hpp"

#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {
namespace {

constexpr std::size_t max_operators = 50'000;  // so that YamlDocument can read a job with as many layers
constexpr std::size_t max_name_length = 60;    // a layer's name consists of two of them
constexpr double max_graph_parameters = 1e18;  // of the whole graph; equals the limit for one layer of a job

using OperatorIndices = std::map<std::string, int>;  // by operator name

/// Reads a number ≥ 0 within the limits of `unit`.
double read_amount(const YamlValue& value, const Unit& unit) {
  const std::string text = value.text();
  double result = 0;
  try {
    result = parse_in_unit(text, unit);
  } catch (const Error& error) {
    throw value.value_error(error.what());
  }
  if (result < 0) throw value.value_error(fmt::format("must not be negative; found {}", quote(text)));
  return result;
}

Operator read_operator(const YamlValue& value) {
  static const Unit flop = flop_unit("FLOP"), byte = size_unit("B");
  const YamlMap map =
      value.map({"name", "flops", "backward_flops", "parameters", "output_bytes", "activation_bytes"});
  Operator result;
  result.name = map.required("name").text(max_name_length);
  result.forward = Flops(read_amount(map.required("flops"), flop));
  const auto backward = map.optional("backward_flops");
  result.backward = backward ? Flops(read_amount(*backward, flop)) : 2 * result.forward;
  result.parameters = map.required("parameters").number(0, max_graph_parameters);
  result.output = Bytes(read_amount(map.required("output_bytes"), byte));
  if (const auto activations = map.optional("activation_bytes"))
    result.activation_memory = Bytes(read_amount(*activations, byte));
  return result;
}

OperatorIndices read_operators(const std::vector<YamlValue>& nodes, OperatorGraph& graph) {
  OperatorIndices indices;
  for (const YamlValue& node : nodes) {
    Operator it = read_operator(node);
    const auto [seen, is_new] = indices.emplace(it.name, static_cast<int>(graph.operators.size()));
    if (!is_new)
      throw node.error(fmt::format("node {} is given twice, first at {}", quote(it.name),
                                   nodes[at(seen->second)].where()));
    graph.operators.push_back(std::move(it));
  }
  return indices;
}

int find_operator(const YamlValue& value, const OperatorIndices& indices) {
  const std::string name = value.text(max_name_length);
  const auto found = indices.find(name);
  if (found != indices.end()) return found->second;
  std::vector<std::string_view> known;
  for (const auto& entry : indices) known.push_back(entry.first);
  throw value.error(fmt::format("unknown node {}; {}", quote(name), suggestion(name, known)));
}

void read_edges(const YamlValue& edges, const OperatorIndices& indices, OperatorGraph& graph) {
  for (const YamlValue& edge : edges.list()) {
    const std::vector<YamlValue> ends = edge.list();
    if (ends.size() != 2)
      throw edge.error(fmt::format("expected the names of two nodes, [from, to]; found {}", ends.size()));
    graph.edges.emplace_back(find_operator(ends[0], indices), find_operator(ends[1], indices));
  }
}

std::string format_cycle(const OperatorGraph& graph, const std::vector<int>& cycle) {
  constexpr std::size_t max_shown = 8;
  std::string text;
  for (std::size_t i = 0; i < cycle.size() && i < max_shown; ++i)
    text += quote(graph.operators[at(cycle[i])].name) + " → ";
  if (cycle.size() > max_shown) text += fmt::format("{} more → ", cycle.size() - max_shown);
  return text + quote(graph.operators[at(cycle.front())].name);
}

void check_connectivity(const std::vector<YamlValue>& nodes, const OperatorGraph& graph) {
  const std::vector<int> cycle = find_cycle(graph);
  if (!cycle.empty())
    throw nodes[at(cycle.front())].error("the edges form a cycle: " + format_cycle(graph, cycle));
  if (const auto disconnected = find_disconnected_operator(graph))
    throw nodes[at(*disconnected)].error(fmt::format("node {} is not connected to {}, the first node",
                                                     quote(graph.operators[at(*disconnected)].name),
                                                     quote(graph.operators.front().name)));
}

/// Bounds the totals, so that any partition of the graph can be written as layers of a job.
void check_totals(const YamlValue& nodes, const OperatorGraph& graph) {
  double parameters = 0, forward = 0, backward = 0, bytes = 0;
  for (const Operator& it : graph.operators) {
    parameters += it.parameters;
    forward += it.forward.value();
    backward += it.backward.value();
    bytes += it.output.value() + it.activation_memory.value_or(Bytes()).value();
  }
  const auto check = [&](double sum, double max_value, std::string_view what) {
    if (sum > max_value)
      throw nodes.value_error(
          fmt::format("{:g} {} in total; at most {:g} are supported", sum, what, max_value));
  };
  check(parameters, max_graph_parameters, "parameters");
  check(forward, flop_unit("FLOP").limits.max_value, "FLOPs");
  check(backward, flop_unit("FLOP").limits.max_value, "FLOPs backward");
  check(bytes, size_unit("B").limits.max_value, "bytes");
}

}  // namespace

OperatorGraph parse_operator_graph(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  const YamlValue root = document.root();
  if (!root.is_map()) throw root.error("expected an operator graph: {\"nodes\": […], \"edges\": […]}");
  const YamlMap map = root.map({"nodes", "edges"});
  const YamlValue list = map.required("nodes");
  const std::vector<YamlValue> nodes = list.list();
  if (nodes.empty()) throw list.value_error("must not be empty");
  if (nodes.size() > max_operators)
    throw list.value_error(fmt::format("{} nodes; at most {} are supported", nodes.size(), max_operators));
  OperatorGraph graph;
  const OperatorIndices indices = read_operators(nodes, graph);
  read_edges(map.required("edges"), indices, graph);
  check_connectivity(nodes, graph);
  check_totals(list, graph);
  return graph;
}

}  // namespace dtfm::io
