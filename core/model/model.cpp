#include "core/model/model.hpp"

#include <map>
#include <utility>

#include "core/base/index.hpp"
#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

constexpr auto model_inputs =
    std::to_array<ModelInputTraits>({{ModelInput::tokens, "tokens"}, {ModelInput::images, "images"}});
static_assert(has_row_for_each(model_inputs, ModelInput::images));

/// Sizes of a transformer, with defaults filled in.
struct BlockShape {
  explicit BlockShape(const Transformer& model)
      : h(model.hidden),
        a(model.heads),
        d(head_width(model)),
        q(a * d),
        kv(model.kv_heads > 0 ? d * model.kv_heads : q),
        f(model.feed_forward > 0 ? model.feed_forward : 4 * h),
        s(model.sequence),
        v(model.vocabulary),
        positions(model.positions > 0 ? model.positions : s),
        norm(model.rms_norm ? h : 2 * h) {}
  double h, a, d, q, kv, f, s, v, positions;  // q, kv: widths of the queries, and of keys and of values
  double norm;                                // parameters of a norm of the hidden size
};

/// Number of weights in the matrices of a block.
double matrices(const Transformer& model, const BlockShape& n) {
  return 2 * n.h * n.q + 2 * n.h * n.kv + (model.gated ? 3 : 2) * n.h * n.f;
}

double biases(const Transformer& model, const BlockShape& n) {
  if (!model.biases) return 0;
  return n.q + n.h + 2 * n.kv + (model.gated ? 2 : 1) * n.f + n.h;
}

Layer block(const Transformer& model, double element_scale) {
  const BlockShape n(model);
  Layer layer;
  layer.name = "block";
  layer.parameters = matrices(model, n) + biases(model, n) + 2 * n.norm;
  if (model.qk_norm) layer.parameters += 2 * n.norm * n.d / n.h;
  layer.attention = Flops(4 * n.s * n.s * n.q);
  layer.forward = Flops(2 * n.s * matrices(model, n)) + layer.attention;
  layer.backward = 2 * layer.forward;
  layer.output = Bytes(2 * n.s * n.h * element_scale);
  const double core = n.a * n.s * n.s;
  if (!model.flash_attention) {
    const double probabilities = 2 * core * element_scale;
    layer.attention_memory = Bytes(model.attention_dropout ? 2 * probabilities + core : probabilities);
  }
  const double norms = 4 * n.s * n.h, qk_norms = model.qk_norm ? 2 * n.s * (n.q + n.kv) : 0,
               attention = 2 * n.s * n.h + 4 * n.s * n.q + 4 * n.s * n.kv,
               mlp = 2 * n.s * n.h + (model.gated ? 6 : 4) * n.s * n.f, masks = 2 * n.s * n.h;
  layer.activation_memory =
      Bytes((norms + qk_norms + attention + mlp) * element_scale + masks) + layer.attention_memory;
  const double inputs = 4 * n.s * n.h;  // of attention and of the MLP
  layer.replicated_memory = Bytes((norms + inputs) * element_scale + masks);
  return layer;
}

Layer embedding(const Transformer& model, double element_scale) {
  const BlockShape n(model);
  Layer layer;
  layer.name = "embedding";
  layer.parameters = n.v * n.h;
  if (model.learned_positions) layer.parameters += n.positions * n.h;
  if (model.encoder) layer.parameters += 2 * n.h + n.norm;
  layer.output = Bytes(2 * n.s * n.h * element_scale);
  layer.activation_memory = layer.replicated_memory = Bytes(8 * n.s + n.s * n.h);
  return layer;
}

Layer head(const Transformer& model, double element_scale) {
  const BlockShape n(model);
  Layer layer;
  layer.name = "head";
  const double transform = n.h * n.h + n.h;
  layer.parameters = n.v * n.h;
  if (model.tied) layer.tied_parameters = n.v * n.h;
  // Encoder: pooler, transform with its norm, and a bias for the vocabulary; otherwise the final norm.
  layer.parameters += model.encoder ? 2 * transform + n.norm + n.v : n.norm;
  layer.forward = Flops(2 * n.s * n.h * n.v + (model.encoder ? 2 * n.s * n.h * n.h : 0));
  layer.backward = 2 * layer.forward;
  layer.head = layer.forward;
  layer.output = Bytes(2 * n.s * n.h * element_scale);  // for a further layer; logits are not sent
  layer.replicated_memory = Bytes(4 * n.s * n.h * element_scale);
  layer.activation_memory = layer.replicated_memory + Bytes(4 * n.s * n.v);  // logits in fp32
  return layer;
}

LayerKinds transformer_kinds(const Transformer& model, double element_bytes) {
  const double element_scale = element_bytes / 2;  // the formulas are for 16-bit numbers
  LayerKinds result{
      {embedding(model, element_scale), block(model, element_scale), head(model, element_scale)}, {}};
  result.kinds_of_layer.assign(at(model.layers), {1});
  result.kinds_of_layer.front() = {0, 1};
  result.kinds_of_layer.back().push_back(2);
  return result;
}

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
  first.tied_parameters += second.tied_parameters;
  first.forward += second.forward;
  first.backward += second.backward;
  first.attention += second.attention;
  first.head += second.head;
  first.output = second.output;
  first.activation_memory += second.activation_memory;
  first.attention_memory += second.attention_memory;
  first.replicated_memory += second.replicated_memory;
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

LayerKinds layer_kinds(const Model& model, double element_bytes) {
  if (const auto* transformer = std::get_if<Transformer>(&model))
    return transformer_kinds(*transformer, element_bytes);
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

Layer with_activations_of_device(Layer layer, int tensor, bool sequence_parallel) {
  const Bytes replicated = sequence_parallel ? Bytes() : layer.replicated_memory;
  layer.activation_memory = replicated + (layer.activation_memory - replicated) / tensor;
  layer.attention_memory = layer.attention_memory / tensor;
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
