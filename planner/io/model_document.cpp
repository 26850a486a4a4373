#include "planner/io/model_document.hpp"

#include <cstdint>

#include <nlohmann/json.hpp>

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

/// Numbers of parameters, operations and bytes are integers.
std::int64_t whole(double value) {
  return static_cast<std::int64_t>(value + 0.5);
}

ordered_json kind_json(const LayerKindSummary& kind, double weight_bytes) {
  return {{"name", kind.name},
          {"count", kind.count},
          {"first", kind.first},
          {"parameters", whole(kind.parameters)},
          {"active_parameters", whole(kind.active_parameters)},
          {"forward_flops_per_sequence", whole(kind.forward.value())},
          {"attention_core_flops", whole(kind.attention.value())},
          {"weight_bytes", whole(kind.parameters * weight_bytes)},
          {"output_bytes", whole(kind.output.value())},
          {"activation_bytes", whole(kind.activation_memory.value())}};
}

}  // namespace

ordered_json model_document(const std::string& name, const ModelSummary& model, double weight_bytes) {
  ordered_json json = {{"schema", "dtfm-model/1"},
                       {"name", name},
                       {"input", name_of(model.input)},
                       {"layers", model.layers},
                       {"sequence", model.sequence},
                       {"parameters", whole(model.parameters)},
                       {"active_parameters", whole(model.active_parameters)},
                       {"prediction_parameters", whole(model.prediction_parameters)},
                       {"forward_flops_per_sequence", whole(model.forward.value())},
                       {"attention_core_flops", whole(model.attention.value())},
                       {"head_flops", whole(model.head.value())},
                       {"weight_bytes", whole(model.parameters * weight_bytes)}};
  ordered_json kinds = ordered_json::array();
  for (const LayerKindSummary& kind : model.kinds) kinds.push_back(kind_json(kind, weight_bytes));
  json["layer_kinds"] = std::move(kinds);
  return json;
}

}  // namespace dtfm::io
