// A model as a graph of operators, and the chain of tasklets that it is cut into.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/model.hpp"

namespace dtfm {

/// Of one sequence (or sample), like a Layer. An operator gives one tensor, which all that come after it
/// read.
struct Operator {
  std::string name;
  double parameters = 0;
  Flops forward, backward;
  Bytes output;
  std::optional<Bytes> activation_memory;  // kept for the backward; nothing: the tensors that it reads

  friend bool operator==(const Operator&, const Operator&) = default;
};

struct OperatorGraph {
  std::vector<Operator> operators;
  std::vector<std::pair<int, int>> edges;  // {from, to}: the second reads the output of the first
};

/// Operators of which each reads the one before it and the first reads the last; empty: there is no cycle.
std::vector<int> find_cycle(const OperatorGraph& graph);

/// The first operator that no path of edges, in whichever direction, joins to operator 0; nothing: all are.
std::optional<int> find_disconnected_operator(const OperatorGraph& graph);

/// Operators so that each comes after those that it reads; of all such orders the first one by the numbers of
/// the operators. Expects no cycle.
std::vector<int> topological_order(const OperatorGraph& graph);

/// The graph as a chain: its operators in topological order, cut wherever at most `max_live_tensors` tensors live. A
/// tensor lives from the operator that makes it to the last one that reads it; one of 0 bytes counts as none.
/// With 1 a chain stays as it is, and a residual block is not cut, for its shortcut lives beside whatever is
/// computed. Encoders with decoders, whose encoding lives all along, want 2, and networks with long skip
/// connections more.
///
/// A layer's output is all that lives at the cut after it, tensors that pass it by too, each once; the last
/// layer's are the tensors of its operators that nobody reads. Expects no cycle and no separate operator.
std::vector<Layer> partition_into_layers(const OperatorGraph& graph, int max_live_tensors);

}  // namespace dtfm
