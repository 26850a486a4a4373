// What is trained, layer by layer: parameters, operations and sizes by published formulas.
#pragma once

#include <compare>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "planner/core/units.hpp"

namespace dtfm {

/// Equal blocks between an embedding and a head. As it is by default: GPT-2's.
struct Transformer {
  int layers = 0, hidden = 0, heads = 0, sequence = 0, vocabulary = 0;
  int kv_heads = 0;      // heads of keys and values (grouped-query attention); 0: as many as heads
  int feed_forward = 0;  // width of the MLP; 0: 4 · hidden
  int positions = 0;     // rows of the table of positions; 0: as many as the sequence has tokens
  bool gated = false;    // the MLP has three matrices, not two (SwiGLU)
  bool biases = true;
  bool rms_norm = false;          // RMS norms, which have no bias
  bool learned_positions = true;  // a table is added to the embedding; else rotary, without parameters
  bool tied = true;               // embedding and head are one matrix
  bool encoder = false;  // BERT: token types, a norm of the embedding, a pooler, a transform before the head
  bool flash_attention = false;  // the core of the attention keeps nothing of size sequence²

  friend bool operator==(const Transformer&, const Transformer&) = default;
};

/// One layer of a chain, or a kind of layer. Sizes and operations are those of one sequence (or sample).
struct Layer {
  std::string name;
  double parameters = 0;
  double tied_parameters = 0;  // of them, a copy of the first layer's; one is enough where both are
  Flops forward, backward;     // backward without what is computed again
  Flops attention;             // of the forward, what selective recomputation does again
  Flops head;                  // of the forward, what no recomputation does again: final norm, head, loss
  Bytes output;                // goes to the next layer
  Bytes activation_memory;     // kept from forward to backward without recomputation, the input among it
  Bytes attention_memory;      // of that, what selective recomputation does not keep

  friend auto operator<=>(const Layer&, const Layer&) = default;
};

/// A model given layer by layer.
struct LayerChain {
  int sequence = 1;  // tokens of a sequence
  std::vector<Layer> layers;

  friend bool operator==(const LayerChain&, const LayerChain&) = default;
};

using Model = std::variant<Transformer, LayerChain>;

int layer_count(const Model& model);
/// Tokens of one sequence.
int sequence_length(const Model& model);

/// A model as profiles see it: the kinds of layers that are measured, and which of them follow each other in
/// each layer of the chain. A transformer has kinds `embedding`, `block` and `head`; its first layer is an
/// embedding and a block, its last a block and a head. In a chain of unlike layers, equal ones are of one
/// kind.
struct LayerKinds {
  std::vector<Layer> kinds;
  std::vector<std::vector<int>> kinds_of_layer;  // indices into `kinds`
};

/// `element_bytes` is that of an activation: 2 or 4.
///
/// With hidden size h, a heads, g of keys and values, MLP width f, sequence s, vocabulary V:
/// - a block has 2 h² + 2 h² g ÷ a parameters in the attention and 2 h f in the MLP (3 h f if gated), biases
///   of all its matrices, two norms; 12 h² + 13 h for GPT (Narayanan et al., arXiv 2104.04473);
/// - its forward has 2 s FLOPs a parameter of its matrices and 4 s² h of the attention core (no saving for
///   the causal mask), 24 s h² + 4 s² h for GPT; backward twice that (the same);
/// - it keeps, in 16-bit numbers, norms 4 s h, attention 6 s h + 4 s h g ÷ a + 4 a s², MLP 2 s h + 4 s f
///   (6 s f if gated: gate, product and the other factor), twice as much in 32 bits,
///   and masks of dropout, 2 s h + a s² bytes, whether there is dropout or not:
///   s h (34 + 5 a s ÷ h) for GPT (Korthikanti et al., arXiv 2205.05198),
///   of which 5 a s² are the attention core's;
/// - the head has 2 s h V FLOPs, keeps 4 s h bytes (twice that in 32 bits) and logits in fp32, 4 s V;
/// - the embedding keeps 8 s + s h bytes
///   (all of that is the same paper's, and in Megatron-LM's accounting).
LayerKinds layer_kinds(const Model& model, double element_bytes);

/// The layers of the chain, each the sum of its kinds.
std::vector<Layer> layer_chain(const LayerKinds& kinds);
inline std::vector<Layer> layer_chain(const Model& model, double element_bytes) {
  return layer_chain(layer_kinds(model, element_bytes));
}

/// Of layers [first, second) of a chain, tied ones once.
double parameters_of(const std::vector<Layer>& chain, std::pair<int, int> layers);

}  // namespace dtfm
