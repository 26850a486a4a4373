// The layers of a transformer, by published formulas.
#pragma once

#include <string_view>

#include "core/model/model.hpp"
#include "core/model/token_layer.hpp"

namespace dtfm {

/// Begin of the names of the kinds of layers that predict further tokens.
inline constexpr std::string_view prediction_kind = "prediction";

/// Kinds `embedding`, one per kind of block (`block` if all are equal, else `name_of` the kind), `head` and,
/// if it predicts further tokens, `prediction`. See layer_kinds.
LayerKinds transformer_kinds(const Transformer& model, ActivationBytes bytes);

// Modules that other models share with transformers. Widths are numbers per token, `h` the hidden size.

/// A norm of a vector of width h with `parameters`; it keeps its input.
void add_norm(TokenLayer& layer, double h, double parameters);

/// Ordinary attention: the widths of all queries, and of all keys, which are those of the values.
struct AttentionShape {
  double heads, queries, keys;
  double key_tokens;  // of which there are keys and values: those of the layer, or of an encoder
  double context;     // of these, how many a token attends to
  bool qkv_bias, output_bias;
  bool stores_scores, dropout;  // without flash attention
  double skipped = 0;           // share of the operations that a fused kernel skips
};
void add_attention(TokenLayer& layer, double h, const AttentionShape& shape);

/// An MLP of two matrices, or three if it is gated.
void add_mlp(TokenLayer& layer, double h, double width, bool gated, bool bias);

/// Dropout masks of one byte per number, of `width` numbers per token in all.
void add_dropout_masks(TokenLayer& layer, double width);

}  // namespace dtfm
