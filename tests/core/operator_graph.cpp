#include "core/model/operator_graph.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <span>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

/// Returns operators a, b, c … with distinguishable numbers: the i-th has 2^i parameters, 3 · 2^i FLOPs
/// forward, twice that backward, and an output of 10^i bytes.
OperatorGraph graph_of(int operators, std::vector<std::pair<int, int>> edges) {
  OperatorGraph graph;
  double power = 1, bytes = 1;
  for (int i = 0; i < operators; ++i) {
    const std::string name(1, static_cast<char>('a' + i));
    graph.operators.push_back({name, power, Flops(3 * power), Flops(6 * power), Bytes(bytes), {}});
    power *= 2;
    bytes *= 10;
  }
  graph.edges = std::move(edges);
  return graph;
}

std::vector<std::string> names(const std::vector<Layer>& layers) {
  std::vector<std::string> result;
  for (const Layer& layer : layers) result.push_back(layer.name);
  return result;
}

std::vector<double> outputs(const std::vector<Layer>& layers) {
  std::vector<double> result;
  for (const Layer& layer : layers) result.push_back(layer.output.value());
  return result;
}

using Names = std::vector<std::string>;
using Numbers = std::vector<double>;

}  // namespace

TEST_CASE("a chain of operators gives the same chain of layers whatever the sizes of its tensors") {
  const OperatorGraph graph = graph_of(4, {{0, 1}, {1, 2}, {2, 3}});
  const std::vector<Layer> layers = partition_into_layers(graph, 1);
  REQUIRE(names(layers) == Names{"a", "b", "c", "d"});
  CHECK(outputs(layers) == Numbers{1, 10, 100, 1000});
  for (std::size_t i = 0; i < 4; ++i) {
    const Operator& it = graph.operators[i];
    CHECK(layers[i].parameters == it.parameters);
    CHECK(layers[i].forward == it.forward);
    CHECK(layers[i].backward == it.backward);
    CHECK(layers[i].activation_memory == (i == 0 ? Bytes(0) : graph.operators[i - 1].output));
  }
}

// a → b → c → d → e, and a → d: the output of a stays live until d has run.
TEST_CASE("a residual block is cut only where one tensor is live unless more are permitted") {
  const OperatorGraph graph = graph_of(5, {{0, 1}, {1, 2}, {2, 3}, {0, 3}, {3, 4}});
  const std::vector<Layer> layers = partition_into_layers(graph, 1);
  CHECK(names(layers) == Names{"a", "b…d", "e"});
  CHECK(outputs(layers) == Numbers{1, 1000, 10000});
  CHECK(layers[1].parameters == 2 + 4 + 8);
  // b reads a, c reads b, d reads c and a; a is counted once.
  CHECK(layers[1].activation_memory.value() == 1 + 10 + 100);
  CHECK(names(partition_into_layers(graph, 2)) == Names{"a", "b", "c", "d", "e"});
  CHECK(outputs(partition_into_layers(graph, 2)) == Numbers{1, 1 + 10, 1 + 100, 1000, 10000});
}

// c, d and e read b; d and e also read the operator before them.
TEST_CASE("a tensor that several later operators read is carried once through every cut") {
  const OperatorGraph graph = graph_of(5, {{0, 1}, {1, 2}, {1, 3}, {2, 3}, {1, 4}, {3, 4}});
  CHECK(names(partition_into_layers(graph, 1)) == Names{"a", "b", "c…e"});
  CHECK(outputs(partition_into_layers(graph, 2)) == Numbers{1, 10, 10 + 100, 10 + 1000, 10000});
}

// a and b are inputs, c reads both, and nothing reads d and e.
TEST_CASE("several inputs and results are allowed and an unread output leaves with the last layer only") {
  OperatorGraph graph = graph_of(5, {{0, 2}, {1, 2}, {2, 3}, {2, 4}});
  CHECK(names(partition_into_layers(graph, 1)) == Names{"a", "b…c", "d", "e"});
  CHECK(outputs(partition_into_layers(graph, 1)) == Numbers{1, 100, 100, 10000});
  // An edge without bytes only orders its ends; it makes no tensor live.
  graph = graph_of(4, {{0, 1}, {1, 2}, {2, 3}, {0, 3}});
  graph.operators[0].output = Bytes(0);
  CHECK(outputs(partition_into_layers(graph, 1)) == Numbers{0, 10, 100, 1000});
}

TEST_CASE("given activations replace what an operator reads") {
  OperatorGraph graph = graph_of(5, {{0, 1}, {1, 2}, {2, 3}, {0, 3}, {3, 4}});
  graph.operators[2].activation_memory = Bytes(7);
  CHECK(partition_into_layers(graph, 1)[1].activation_memory.value() == 1 + 7 + 100);
}

TEST_CASE("a cycle is reported in the direction of its edges") {
  CHECK(find_cycle(graph_of(3, {{0, 1}, {1, 2}})).empty());
  CHECK(find_cycle(graph_of(3, {{0, 1}, {1, 1}})) == std::vector<int>{1});
  // c → d → b → c; e comes only after it, and a before.
  CHECK(find_cycle(graph_of(5, {{0, 1}, {1, 2}, {2, 3}, {3, 1}, {3, 4}})) == std::vector<int>{1, 2, 3});
}

TEST_CASE("operators that are not connected to the first one are found") {
  CHECK_FALSE(find_disconnected_operator(graph_of(3, {{0, 2}, {1, 2}})));
  CHECK(find_disconnected_operator(graph_of(4, {{0, 2}, {1, 3}})) == 1);
  CHECK(find_disconnected_operator(graph_of(2, {})) == 1);
}

namespace {

/// Returns up to 12 connected operators without a cycle; their order in the file is not topological.
OperatorGraph random_graph(Rng& rng) {
  const int size = 1 + static_cast<int>(rng.below(12));
  OperatorGraph graph = graph_of(size, {});
  for (Operator& it : graph.operators) it.output = Bytes(static_cast<double>(rng.below(4)));
  std::vector<int> hidden_order(at(size));
  std::iota(hidden_order.begin(), hidden_order.end(), 0);
  rng.shuffle(std::span(hidden_order));
  for (int to = 1; to < size; ++to) {
    const int edges = 1 + static_cast<int>(rng.below(3));
    for (int edge = 0; edge < edges; ++edge)
      graph.edges.emplace_back(hidden_order[rng.below(static_cast<std::uint32_t>(to))], hidden_order[at(to)]);
  }
  return graph;
}

/// Returns the bytes and the number of tensors that the first `done` operators of `order` produce and others
/// read.
std::pair<double, int> live_by_definition(const OperatorGraph& graph, const std::vector<int>& order,
                                          std::size_t done) {
  const std::set<int> before(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(done));
  std::set<int> live;
  for (const auto& [from, to] : graph.edges)
    if (before.contains(from) && !before.contains(to)) live.insert(from);
  std::pair<double, int> result;
  for (const int it : live) {
    const double bytes = graph.operators[at(it)].output.value();
    result.first += bytes;
    if (bytes > 0) ++result.second;
  }
  return result;
}

/// Returns how many operators the layer has: each has one bit of its parameters.
int members_of(const Layer& layer) {
  return __builtin_popcount(static_cast<unsigned>(layer.parameters));
}

void check_tasklets(const OperatorGraph& graph, int max_live) {
  const std::vector<int> order = topological_order(graph);
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[at(order[i])] = static_cast<int>(i);
  for (const auto& [from, to] : graph.edges) REQUIRE(place[at(from)] < place[at(to)]);

  const std::vector<Layer> layers = partition_into_layers(graph, max_live);
  std::set<std::size_t> cuts;
  std::size_t done = 0;
  double parameters = 0, forward = 0, backward = 0;
  for (const Layer& layer : layers) {
    // The layer's operators are the next ones of the order.
    double expected = 0;
    for (int i = members_of(layer); i > 0; --i) expected += graph.operators[at(order.at(done++))].parameters;
    REQUIRE(layer.parameters == expected);
    parameters += layer.parameters;
    forward += layer.forward.value();
    backward += layer.backward.value();
    if (done == order.size()) break;
    cuts.insert(done);
    REQUIRE(layer.output.value() == live_by_definition(graph, order, done).first);
  }
  // Operators 0 … n − 1 have 2^n − 1 parameters together, three times as many FLOPs forward, and six times
  // backward.
  const double all = static_cast<double>((1 << order.size()) - 1);
  REQUIRE(parameters == all);
  REQUIRE(forward == 3 * all);
  REQUIRE(backward == 6 * all);
  for (std::size_t cut = 1; cut < order.size(); ++cut)
    REQUIRE(cuts.contains(cut) == (live_by_definition(graph, order, cut).second <= max_live));
}

}  // namespace

TEST_CASE(
    "in random graphs sums are preserved and the order is topological and a cut carries all live "
    "tensors") {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(1, seed);
    const OperatorGraph graph = random_graph(rng);
    REQUIRE(find_cycle(graph).empty());
    REQUIRE_FALSE(find_disconnected_operator(graph));
    for (const int max_live : {1, 2, 100}) check_tasklets(graph, max_live);
  }
}

TEST_CASE("in random graphs a reversed edge makes a cycle that is reported correctly") {
  int cycles = 0;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(2, seed);
    OperatorGraph graph = random_graph(rng);
    if (graph.edges.empty()) continue;
    const auto [from, to] = graph.edges[rng.below(static_cast<std::uint32_t>(graph.edges.size()))];
    graph.edges.emplace_back(to, from);
    const std::vector<int> cycle = find_cycle(graph);
    REQUIRE(cycle.size() >= 2);
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      const std::pair<int, int> edge(cycle[i], cycle[(i + 1) % cycle.size()]);
      REQUIRE(std::find(graph.edges.begin(), graph.edges.end(), edge) != graph.edges.end());
    }
    REQUIRE(std::set<int>(cycle.begin(), cycle.end()).size() == cycle.size());
    ++cycles;
  }
  CHECK(cycles > 400);
}
