// Reads operator graphs: the `file:` of a model of kind `graph` in a job.
#pragma once

#include <string>

#include "core/model/operator_graph.hpp"

namespace dtfm::io {

/// Parses JSON (or YAML): {"nodes": [{"name": "conv1", "flops": 2.4e8, "backward_flops": 4.8e8, "parameters":
/// 9408, "output_bytes": 1605632, "activation_bytes": 301056}, …], "edges": [["conv1", "bn1"], …]}. FLOPs and
/// bytes are per sequence or sample. `backward_flops` defaults to twice `flops`; `activation_bytes` is
/// optional (see Operator). Throws Error at file:line:column for unknown keys, values out of range, duplicate
/// nodes, cycles and graphs that are not connected.
OperatorGraph parse_operator_graph(std::string text, std::string file);

}  // namespace dtfm::io
