// A model as a graph of operators, and its partition into a chain of layers.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/model.hpp"

namespace dtfm {

/// An operator, per sequence (or sample) like a Layer. It produces one tensor, which all its successors read.
struct Operator {
  std::string name;
  double parameters = 0;
  Flops forward, backward;
  Bytes output;
  std::optional<Bytes> activation_memory;  // kept for the backward; empty: the tensors that it reads

  friend bool operator==(const Operator&, const Operator&) = default;
};

struct OperatorGraph {
  std::vector<Operator> operators;
  std::vector<std::pair<int, int>> edges;  // {from, to}: `to` reads the output of `from`
};

/// Returns operators that form a cycle: each reads the one before it, and the first reads the last. Empty if
/// there is no cycle.
std::vector<int> find_cycle(const OperatorGraph& graph);

/// Returns the first operator that is not connected to operator 0 by edges of either direction; empty if all
/// are.
std::optional<int> find_disconnected_operator(const OperatorGraph& graph);

/// Returns a topological order of the operators, the lexicographically smallest one by their numbers. Expects
/// no cycle.
std::vector<int> topological_order(const OperatorGraph& graph);

/// Converts the graph to a chain: its operators in topological order, cut wherever at most `max_live_tensors`
/// tensors are live. A tensor is live from the operator that produces it to the last one that reads it;
/// tensors of 0 bytes do not count. With a limit of 1 a chain stays as it is, and a residual block is not
/// cut, because its shortcut is live throughout the block. Encoder-decoder models, whose encoding is live
/// throughout the decoder, need 2, networks with long skip connections more.
///
/// The output of a layer is everything that is live at the cut after it, each tensor once, including tensors
/// that merely pass through the layer; the output of the last layer consists of the tensors that no operator
/// reads. Expects no cycle and no disconnected operator.
std::vector<Layer> partition_into_layers(const OperatorGraph& graph, int max_live_tensors);

}  // namespace dtfm
