#include "core/model/model.hpp"

#include <map>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"
#include "core/model/transformer_layers.hpp"

namespace dtfm {
namespace {

constexpr auto model_inputs =
    std::to_array<ModelInputTraits>({{ModelInput::tokens, "tokens"}, {ModelInput::images, "images"}});
static_assert(has_row_for_each(model_inputs, ModelInput::images));

LayerKinds chain_kinds(const LayerChain& model) {
  LayerKinds result;
  std::map<Layer, int> kind_of_layer;
  for (const Layer& layer : model.layers) {
    const auto [known_kind, is_new] = kind_of_layer.emplace(layer, static_cast<int>(result.kinds.size()));
    if (is_new) result.kinds.push_back(layer);
    result.kinds_of_layer.push_back({known_kind->second});
  }
  return result;
}

/// Sum of two kinds computed one after another.
Layer concatenate(Layer first, const Layer& second) {
  first.parameters += second.parameters;
  first.expert_parameters += second.expert_parameters;
  first.routed_mlps += second.routed_mlps;
  first.matrix_parameters += second.matrix_parameters;
  first.tied_parameters += second.tied_parameters;
  first.forward += second.forward;
  first.backward += second.backward;
  first.attention += second.attention;
  first.skipped_attention += second.skipped_attention;
  first.mlps += second.mlps;
  first.routed += second.routed;
  first.head += second.head;
  first.unweighted += second.unweighted;
  first.orthogonalization += second.orthogonalization;
  first.output = second.output;
  first.keys_values += second.keys_values;
  first.queries_outputs += second.queries_outputs;
  first.dispatched += second.dispatched;
  first.activation_memory += second.activation_memory;
  first.attention_memory += second.attention_memory;
  first.mlp_memory += second.mlp_memory;
  first.routed_memory += second.routed_memory;
  first.expert_outputs_memory += second.expert_outputs_memory;
  first.replicated_memory += second.replicated_memory;
  first.gathered_memory += second.gathered_memory;
  return first;
}

}  // namespace

std::span<const ModelInputTraits> model_input_table() {
  return model_inputs;
}

std::string_view name_of(ModelInput input) {
  return row_of(model_inputs, input).name;
}

int layer_count(const Model& model) {
  if (const auto* transformer = std::get_if<Transformer>(&model)) return transformer->layers;
  return static_cast<int>(std::get<LayerChain>(model).layers.size());
}

int sequence_length(const Model& model) {
  return std::visit([](const auto& kind) { return kind.sequence; }, model);
}

ModelInput model_input(const Model& model) {
  const auto* chain = std::get_if<LayerChain>(&model);
  return chain ? chain->input : ModelInput::tokens;
}

double input_bytes(const Model& model) {
  const auto* chain = std::get_if<LayerChain>(&model);
  if (chain && chain->input_size.value() > 0) return chain->input_size.value();
  if (chain && chain->input == ModelInput::images) return chain->layers.front().output.value();
  return token_id_bytes * sequence_length(model);
}

LayerKinds layer_kinds(const Model& model, ActivationBytes bytes) {
  if (const auto* transformer = std::get_if<Transformer>(&model))
    return transformer_kinds(*transformer, bytes);
  return chain_kinds(std::get<LayerChain>(model));
}

std::vector<Layer> layer_chain(const LayerKinds& kinds) {
  std::vector<Layer> chain;
  for (const std::vector<int>& parts : kinds.kinds_of_layer) {
    chain.push_back(kinds.kinds[at(parts.front())]);
    for (std::size_t i = 1; i < parts.size(); ++i)
      chain.back() = concatenate(std::move(chain.back()), kinds.kinds[at(parts[i])]);
  }
  return chain;
}

Layer with_activations_of_device(Layer layer, int tensor, bool sequence_parallel, int token_parts,
                                 double routed_load) {
  const Bytes more = layer.routed_memory * (routed_load - 1);
  layer.activation_memory += more;
  layer.mlp_memory += more;
  layer.routed_memory += more;
  layer.expert_outputs_memory = layer.expert_outputs_memory * routed_load;
  for (Bytes* it :
       {&layer.output, &layer.activation_memory, &layer.attention_memory, &layer.mlp_memory,
        &layer.routed_memory, &layer.expert_outputs_memory, &layer.replicated_memory, &layer.gathered_memory})
    *it = *it / token_parts;
  const Bytes replicated = sequence_parallel ? layer.gathered_memory : layer.replicated_memory;
  layer.activation_memory = replicated + (layer.activation_memory - replicated) / tensor;
  for (Bytes* it :
       {&layer.attention_memory, &layer.mlp_memory, &layer.routed_memory, &layer.expert_outputs_memory})
    *it = *it / tensor;
  layer.replicated_memory = replicated;
  if (sequence_parallel) layer.output = layer.output / tensor;
  return layer;
}

double parameters_of(const std::vector<Layer>& chain, std::pair<int, int> layers) {
  const auto [begin, end] = layers;
  double sum = 0;
  for (int layer = begin; layer < end; ++layer) {
    sum += chain[at(layer)].parameters;
    if (begin == 0) sum -= chain[at(layer)].tied_parameters;
  }
  return sum;
}

}  // namespace dtfm
