#include "core/model/model_summary.hpp"

#include <algorithm>

#include "core/base/index.hpp"
#include "core/model/transformer_layers.hpp"

namespace dtfm {
namespace {

Model with_full_scores(Model model) {
  if (auto* transformer = std::get_if<Transformer>(&model); transformer && transformer->window > 0)
    transformer->window = std::max(transformer->window, transformer->sequence);
  return model;
}

/// Share of the parameters in experts that a token visits.
double visited_share(const Model& model) {
  const auto* transformer = std::get_if<Transformer>(&model);
  if (transformer == nullptr || transformer->experts.count == 0) return 1;
  return static_cast<double>(transformer->experts.per_token) / transformer->experts.count;
}

LayerKindSummary summarize(const Layer& kind, double visited) {
  return {.name = kind.name,
          .parameters = kind.parameters,
          .active_parameters = kind.parameters - kind.expert_parameters * (1 - visited),
          .forward = kind.forward,
          .attention = kind.attention,
          .output = kind.output,
          .activation_memory = kind.activation_memory};
}

}  // namespace

ModelSummary summarize_model(const Model& model, ActivationBytes bytes) {
  const LayerKinds kinds = layer_kinds(with_full_scores(model), bytes);
  ModelSummary result;
  result.input = model_input(model);
  result.layers = layer_count(model);
  result.sequence = sequence_length(model);
  for (const Layer& kind : kinds.kinds) result.kinds.push_back(summarize(kind, visited_share(model)));
  for (std::size_t layer = 0; layer < kinds.kinds_of_layer.size(); ++layer)
    for (const int kind : kinds.kinds_of_layer[layer]) {
      LayerKindSummary& it = result.kinds[at(kind)];
      const Layer& sizes = kinds.kinds[at(kind)];
      if (it.count++ == 0) it.first = static_cast<int>(layer);
      if (it.name.starts_with(prediction_kind)) {
        result.prediction_parameters += it.parameters - sizes.tied_parameters;
        continue;
      }
      result.parameters += it.parameters - sizes.tied_parameters;
      result.active_parameters += it.active_parameters - sizes.tied_parameters;
      result.forward += it.forward;
      result.attention += it.attention;
      result.head += sizes.head;
    }
  return result;
}

}  // namespace dtfm
