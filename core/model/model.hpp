// The model that is trained, as layers with parameters, operations and sizes by published formulas.
#pragma once

#include <compare>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/units.hpp"
#include "core/model/transformer.hpp"

namespace dtfm {

/// One layer of a chain, or a kind of layer. Sizes and operations are per sequence (or sample).
struct Layer {
  std::string name;
  double parameters = 0;
  double expert_parameters = 0;  // part of them in routed experts, of which a token visits only some
  double routed_mlps = 0;        // MLPs that consist of routed experts alone
  double matrix_parameters =
      0;  // part of them in matrices of blocks, which may be quantized and orthogonalized
  double tied_parameters = 0;   // part of them shared with the first layer; a stage with both holds one copy
  Flops forward, backward;      // backward without recomputation
  Flops attention;              // part of the forward: cores of attention
  Flops skipped_attention;      // part of `attention`: masked, so that a fused kernel skips it
  Flops mlps;                   // part of the forward: MLPs and experts, with their routers
  Flops routed;                 // part of that: routed experts
  Flops head;                   // part of the forward that is never recomputed: final norm, head, loss
  Flops unweighted;             // part of the forward that is of neither scores nor products with weights
  Flops orthogonalization;      // of the matrices, once per iteration, if the optimizer orthogonalizes
  Bytes output;                 // sent to the next layer
  Bytes keys_values;            // of attention, for all tokens
  Bytes queries_outputs;        // queries and outputs of attention, for all tokens
  Bytes dispatched;             // vectors of tokens for routed experts, one per visit
  Bytes activation_memory;      // kept from forward to backward without recomputation, including the input
  Bytes attention_memory;       // part of it that cores of attention keep
  Bytes mlp_memory;             // part of it that MLPs and experts keep besides their inputs
  Bytes routed_memory;          // part of that: what routed experts keep
  Bytes expert_outputs_memory;  // part of that: outputs of their activation functions
  /// Part of `activation_memory`, without the attention core, that every device of a tensor-parallel group
  /// keeps whole unless sequence parallelism divides it.
  Bytes replicated_memory;
  Bytes gathered_memory;  // part of that: what sequence parallelism does not divide either

  friend auto operator<=>(const Layer&, const Layer&) = default;
};

/// What a model is trained on, in which throughput and costs are counted.
enum class ModelInput : unsigned char { tokens, images };

struct ModelInputTraits {
  ModelInput kind;
  std::string_view name;
};

/// A row for each value, in the order of the enum.
std::span<const ModelInputTraits> model_input_table();
std::string_view name_of(ModelInput input);

/// A model given layer by layer.
struct LayerChain {
  int sequence = 1;  // tokens per sequence; 1 if the input is images, of which each is a sequence
  std::vector<Layer> layers;
  ModelInput input = ModelInput::tokens;
  Bytes input_size = {};  // of the input of a sample; zero: see `input_bytes`

  friend bool operator==(const LayerChain&, const LayerChain&) = default;
};

using Model = std::variant<Transformer, LayerChain>;

int layer_count(const Model& model);
/// Tokens per sequence; 1 for image models, so token counts equal image counts.
int sequence_length(const Model& model);
ModelInput model_input(const Model& model);

/// Bytes of a token id or label: a 64-bit integer (torch.int64), as tokenizers return and
/// torch.nn.CrossEntropyLoss requires.
inline constexpr double token_id_bytes = 8;
/// Bytes of the input of a sample: the input size of a chain, if given; otherwise token ids, or an image as
/// large as the output of the first layer.
double input_bytes(const Model& model);

/// A model as profiles see it: the kinds of layers that are measured, and the kinds that make up each layer
/// of the chain. A transformer has the kinds `embedding`, `block` (or several, if blocks differ) and `head`,
/// and `prediction` for each further token that it predicts; its first layer is an embedding and a block, its
/// last one a block, a head and the predictions. In a chain of heterogeneous layers, equal layers are of one
/// kind.
struct LayerKinds {
  std::vector<Layer> kinds;
  std::vector<std::vector<int>> kinds_of_layer;  // indices into `kinds`
};

/// Sizes of the numbers of activations, in bytes.
struct ActivationBytes {
  ActivationBytes(double its_element, double its_product_input = 0)
      : element(its_element), product_input(its_product_input) {}

  double element;        // 2 or 4
  double product_input;  // of quantized inputs of matrix products that the backward pass keeps; 0: as above
};

/// Kinds of layers of a model.
///
/// With hidden size h, a heads, g key-value heads, heads of width d, so that queries have the width q = a d
/// and keys k = g d, MLP width f, sequence s, vocabulary V:
/// - a block has 2 h q + 2 h k parameters in the attention and 2 h f in the MLP (3 h f if gated), biases of
///   all its matrices, two norms of h, and with `qk_norm` two of d; 12 h² + 13 h for GPT, where q = k = h
///   (Narayanan et al., arXiv 2104.04473);
/// - its forward takes 2 s FLOPs per parameter of its matrices and 4 s² q for the attention core (no saving
///   for the causal mask), 24 s h² + 4 s² h for GPT; backward takes twice that (same source);
/// - it keeps, with 16-bit numbers, norms 4 s h (with `qk_norm` also their inputs, 2 s (q + k)), attention
///   2 s h + 4 s q + 4 s k + 4 a s², MLP 2 s h + 4 s f (6 s f if gated: gate, product and the other factor),
///   twice as much with 32 bits, and dropout masks of 2 s h (`dropout`) and a s² bytes
///   (`attention_dropout`): s h (34 + 5 a s ÷ h) for GPT (Korthikanti et al., arXiv 2205.05198), of which
///   5 a s² belong to the attention core; without attention dropout the core keeps only the probabilities,
///   2 a s²;
/// - of that, the inputs of norms, attention and MLP and the dropout masks (10 s h) are replicated in a
///   tensor-parallel group without sequence parallelism (same source); so are the inputs of the final norm
///   and of the head, and what the embedding keeps;
/// - a window of w tokens limits the attention core to 4 s w q FLOPs with flash attention;
/// - other modules: core/model/transformer_layers.cpp;
/// - the head takes 2 s h V FLOPs, and keeps 4 s h bytes (twice that with 32 bits) and logits in fp32, 4 s V;
/// - with eager kernels, autograd also keeps rotated queries and keys, 2 s (q + k), and the output of a gated
///   MLP's activation function, 2 s f. Of logits it keeps the product, a copy in fp32 and probabilities in
///   fp32, 10 s V instead of 4 s V (nanotron/parallel/tensor_parallel/functional.py). The inputs of
///   attention, MLP and head stay whole even with sequence parallelism;
/// - the embedding keeps 8 s bytes and, with `dropout`, a mask of s h (activation memory as in the latter
///   paper and in Megatron-LM);
/// - with quantized products, the inputs of the matrices of a block are kept in their format, the input of
///   the output projection in addition to what the attention core keeps.
LayerKinds layer_kinds(const Model& model, ActivationBytes bytes);

/// The layers of the chain, each the sum of its kinds.
std::vector<Layer> layer_chain(const LayerKinds& kinds);
inline std::vector<Layer> layer_chain(const Model& model, ActivationBytes bytes) {
  return layer_chain(layer_kinds(model, bytes));
}

/// Returns `layer` with `output` and the activation sizes reduced to what one device holds, if `token_parts`
/// groups of `tensor` devices compute different tokens: with sequence parallelism 1 / `tensor` of everything
/// that its group computes, except `gathered_memory`, which stays whole; without it, `output` and
/// `replicated_memory` of the group stay whole and the rest is divided. `routed_load`: tokens routed to the
/// device's experts ÷ the mean. Parameters and FLOPs are unchanged.
Layer with_activations_of_device(Layer layer, int tensor, bool sequence_parallel, int token_parts = 1,
                                 double routed_load = 1);

/// Parameters of layers [first, second) of a chain; tied parameters count once.
double parameters_of(const std::vector<Layer>& chain, std::pair<int, int> layers);

}  // namespace dtfm
