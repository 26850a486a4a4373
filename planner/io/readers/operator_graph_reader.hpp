// Operator graphs of jobs: the `file:` of a model of kind graph.
#pragma once

#include <string>

#include "planner/core/operator_graph.hpp"

namespace dtfm::io {

/// JSON (or YAML): {"nodes": [{"name": "conv1", "flops": 2.4e8, "backward_flops": 4.8e8, "parameters": 9408,
/// "output_bytes": 1605632, "activation_bytes": 301056}, …], "edges": [["conv1", "bn1"], …]}, all of one
/// sequence or sample. Backward is twice the forward where it is not given; activations are those of
/// Operator. Throws Error at file:line:column for what is misspelt, out of range, given twice, in a cycle or
/// apart from the rest.
OperatorGraph parse_operator_graph(std::string text, std::string file);

}  // namespace dtfm::io
