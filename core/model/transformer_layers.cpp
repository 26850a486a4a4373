#include "core/model/transformer_layers.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/index.hpp"

namespace dtfm {
namespace {

/// Parameters of a norm of vectors of width `width`.
double norm_parameters(Norm norm, double width) {
  switch (norm) {
    case Norm::layer:
      return 2 * width;
    case Norm::layer_without_bias:
    case Norm::rms:
      return width;
    case Norm::none:
      return 0;
  }
  return 0;
}

/// What eager attention stores of `scores` probabilities: before and after dropout, and its mask.
Bytes score_memory(double scores, bool stores, bool dropout, double element_bytes) {
  if (!stores) return {};
  const double probabilities = scores * element_bytes;
  return Bytes(dropout ? 2 * probabilities + scores : probabilities);
}

/// The matrices of an MLP without its input: keeps gate, other factor and product, or input and output of the
/// activation function. With eager kernels, a gated one also keeps the output of the activation function.
void add_mlp_matrices(TokenLayer& layer, double h, double width, bool gated, bool bias, bool eager = false) {
  for (int matrix = 0; matrix < (gated ? 2 : 1); ++matrix) layer.project(h, width, bias);
  layer.project(width, h, bias).keep((gated ? 2 : 1) * width).keep_product_input(width);
  if (gated && eager) layer.keep(width);
}

/// Builds the layers of one transformer.
class LayerMaker {
 public:
  LayerMaker(const Transformer& model, ActivationBytes bytes)
      : model_(model),
        bytes_(bytes),
        h_(model.hidden),
        s_(model.sequence),
        v_(model.vocabulary),
        e_(token_width(model)) {}

  Layer embedding() const {
    TokenLayer layer = empty_layer("embedding");
    layer.add_parameters(v_ * e_);
    if (e_ != h_) layer.project(e_, h_, false).keep_replicated(e_).outside_of_blocks();
    if (model_.learned_positions) layer.add_parameters(position_rows() * h_);
    if (model_.encoder) layer.add_parameters(model_.token_types * h_ + norm_size());
    if (model_.embedding_norm) add_norm(layer, h_, norm_size());
    return layer.keep_replicated_bytes(token_id_bytes + (model_.dropout ? h_ : 0)).layer();  // ids and a mask
  }

  Layer block(const BlockKind& kind, std::string name) const {
    TokenLayer layer = empty_layer(std::move(name));
    add_block(layer, kind);
    return layer.layer();
  }

  /// Encoder: pooler, transform with its norm, and a bias for the vocabulary; otherwise the final norm.
  Layer head() const {
    TokenLayer layer = empty_layer("head");
    if (model_.encoder) {
      layer.project(h_, h_, true).add_parameters(norm_size() + v_);
      if (model_.next_sentence) layer.add_parameters(2 * h_ + 2);
      if (model_.pooler) layer.add_parameters(h_ * h_ + h_);  // of one token: its operations do not count
    } else if (model_.final_norm) {
      layer.add_parameters(norm_size());
    }
    if (e_ != h_) layer.project(h_, e_, false).keep_replicated(e_);
    add_logits(layer, true);
    return layer.as_head().layer();
  }

  /// Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2): norms of the hidden state and of
  /// the next token's embedding, a projection of both, a block, a norm, and the product with the model's
  /// head. A stage without the first layer has a copy of the embedding for it, unless head and embedding are
  /// one matrix.
  Layer prediction(bool is_first) const {
    TokenLayer layer =
        empty_layer(std::string(prediction_kind) + (is_first || model_.tied ? "" : "-further"));
    add_logits(layer, false);
    layer.as_head();
    for (int norm = 0; norm < 3; ++norm) add_norm(layer, h_, norm_size());
    layer.keep_replicated_product_input(2 * h_).project(2 * h_, h_, false);
    add_block(layer, block_kind(model_, model_.layers - 1));
    if (is_first && !model_.tied) layer.add_parameters(v_ * e_).tie(v_ * e_);
    return layer.layer();
  }

 private:
  TokenLayer empty_layer(std::string name) const { return {std::move(name), s_, h_, bytes_}; }
  bool is_eager() const { return model_.eager_kernels; }
  double norm_size() const { return norm_parameters(model_.norm, h_); }
  double position_rows() const { return model_.positions > 0 ? model_.positions : model_.sequence; }

  /// The product with the vocabulary. A fused loss keeps the logits in fp32 and overwrites them with their
  /// gradients; eager kernels keep the logits, their copy in fp32 and the probabilities. The parameters are
  /// `owned` by this layer, though perhaps tied, or those of the model's head.
  void add_logits(TokenLayer& layer, bool owned) const {
    constexpr double fp32_bytes = 4;
    layer.keep_replicated(2 * h_);
    if (is_eager()) layer.gather(h_ * bytes_.element);
    const double product = bytes_.element < fp32_bytes ? bytes_.element : 0;  // without a copy in fp32
    layer.keep_bytes((is_eager() ? product + 2 * fp32_bytes : fp32_bytes) * v_);
    if (!owned) return void(layer.project_by_shared(e_, v_));
    layer.project(e_, v_, model_.biases.head);
    if (model_.tied) layer.tie(v_ * e_);
  }

  /// Attention and MLP with one norm have one input.
  void add_block(TokenLayer& layer, const BlockKind& kind) const {
    const int modules = (kind.mixer != Mixer::none) + (kind.mlp != Mlp::none);
    const int norms = modules == 2 ? model_.norms : std::max(1, model_.norms / 2);
    for (int norm = 0; norm < norms; ++norm) add_norm(layer, h_, norm_size());
    add_mixer(layer, kind.mixer);
    const bool shares_input = modules == 2 && norms == 1;
    if (!shares_input && kind.mlp == Mlp::dense) {
      layer.keep_replicated_product_input(h_);
      if (is_eager()) layer.gather_product_input(h_);
    }
    if (!shares_input && kind.mlp == Mlp::experts) layer.keep_replicated(h_);
    add_mlp_of(layer, kind.mlp);
    if (model_.dropout) add_dropout_masks(layer, modules * h_);
  }

  void add_mixer(TokenLayer& layer, Mixer mixer) const {
    switch (mixer) {
      case Mixer::none:
        return;
      case Mixer::attention:
      case Mixer::window_attention:
        return model_.latent.kv_rank > 0 ? add_latent_attention(layer, mixer)
                                         : add_ordinary_attention(layer, mixer);
      case Mixer::mamba_2:
        return add_mamba(layer);
      case Mixer::delta_net:
        return add_delta_net(layer);
    }
  }

  /// Flash attention skips what is outside of the window; eager attention masks it.
  double context_of(Mixer mixer) const {
    const bool skips = mixer == Mixer::window_attention && model_.flash_attention;
    return skips ? std::min<double>(s_, model_.window) : s_;
  }

  /// Share of the FLOPs of attention that a causal mask hides, which a fused kernel skips: with a context of
  /// w tokens, w² ÷ 2 of the s w pairs of queries and keys.
  double skipped_share(Mixer mixer) const {
    return model_.flash_attention && !model_.encoder ? context_of(mixer) / (2 * s_) : 0;
  }

  void add_ordinary_attention(TokenLayer& layer, Mixer mixer) const {
    const double d = head_width(model_), queries = d * model_.heads, keys = d * kv_head_count(model_);
    const Biases& biases = model_.biases;
    add_attention(layer, h_,
                  {static_cast<double>(model_.heads), queries, keys, s_, context_of(mixer), biases.qkv,
                   biases.output, !model_.flash_attention, model_.attention_dropout, skipped_share(mixer)});
    layer.add_attention_vectors(2 * keys, 2 * queries);
    if (is_eager()) {
      layer.gather_product_input(h_);
      if (!model_.learned_positions) layer.keep(queries + keys);  // after their rotation
    }
    if (model_.attention_gate) layer.project(h_, queries, biases.qkv).keep(2 * queries);
    if (model_.attention_sinks) layer.add_parameters(model_.heads);
    if (model_.qk_norm == QkNorm::none) return;
    layer.keep(queries + keys);
    layer.add_parameters(model_.qk_norm == QkNorm::head ? 2 * norm_parameters(model_.norm, d)
                                                        : norm_parameters(model_.norm, queries + keys));
  }

  /// Queries and keys have nope_dim + rope_dim numbers per head, values value_dim. Kept: the input, latent
  /// vectors before and after their norms, the rotary key, queries, keys, values and the output.
  void add_latent_attention(TokenLayer& layer, Mixer mixer) const {
    const LatentAttention& it = model_.latent;
    const double a = model_.heads, qk = a * (it.nope_dim + it.rope_dim), values = a * it.value_dim;
    const bool bias = model_.biases.qkv;  // of the projections to the latent vectors
    if (it.query_rank > 0) {
      layer.project(h_, it.query_rank, bias).add_parameters(norm_parameters(model_.norm, it.query_rank));
      layer.project(it.query_rank, qk, false).keep(it.query_rank).keep_product_input(it.query_rank);
    } else {
      layer.project(h_, qk, false);
    }
    layer.project(h_, it.kv_rank + it.rope_dim, bias)
        .add_parameters(norm_parameters(model_.norm, it.kv_rank))
        .project(it.kv_rank, a * (it.nope_dim + it.value_dim), false)
        .project(values, h_, model_.biases.output);
    layer.add_attention_vectors(qk + values, qk + values)
        .keep_replicated_product_input(h_)
        .keep(it.kv_rank + it.rope_dim)
        .keep_product_input(it.kv_rank)
        .keep(2 * qk + 2 * values)
        .keep_product_input(values, true);
    if (is_eager()) layer.keep((a + 1) * it.rope_dim);  // after their rotation
    const double flops = 2 * s_ * context_of(mixer) * (qk + values);
    layer.add_attention(
        flops, skipped_share(mixer) * flops,
        score_memory(s_ * s_ * a, !model_.flash_attention, model_.attention_dropout, bytes_.element));
  }

  /// Projections of x, z (a gate), B, C and dt; a convolution of x, B and C; the scan; a gated norm; the
  /// output projection. The scan (arXiv 2405.21060, section 6) multiplies, per head, C with B and the result
  /// with x inside of chunks, B with x to the state of a chunk, the states of all chunks, and C with the
  /// state.
  void add_mamba(TokenLayer& layer) const {
    const Mamba2& it = model_.mamba;
    const double inner = static_cast<double>(it.heads) * it.head_dim,
                 convolved = inner + 2.0 * it.groups * it.state, chunks = std::ceil(s_ / it.chunk);
    layer.project(h_, inner + convolved + it.heads, it.biases).project(inner, h_, it.biases);
    layer.add_parameters(convolved * (it.convolution + (it.convolution_bias ? 1 : 0)))
        .add_flops(2 * s_ * convolved * it.convolution)
        .add_flops(2 * chunks * it.chunk * it.chunk * (static_cast<double>(it.heads) * it.state + inner))
        .add_flops(2 * inner * it.state * (2 * chunks * it.chunk + (chunks + 1) * (chunks + 1)))
        .add_parameters(3.0 * it.heads + inner);  // A, D and the bias of dt; the norm
    // Input; x, B, C before and after the convolution; z, dt; the norm's input and output.
    layer.keep_replicated_product_input(h_)
        .keep(2 * convolved + inner + it.heads + inner)
        .keep_product_input(inner);
  }

  /// Projections of queries, keys, values, a gate, and per head of the values the rates of decay and of
  /// update; a convolution of the former three; the delta rule in chunks (arXiv 2412.06464, section 3.3); a
  /// gated norm per head; the output projection. Per head and token, the rule takes two products of a
  /// chunk with keys, one with values, and three of keys and values with the state; a triangular system per
  /// chunk does not count.
  void add_delta_net(TokenLayer& layer) const {
    constexpr double chunk = 64;  // of flash-linear-attention and transformers
    const DeltaNet& it = model_.delta_net;
    const double keys = static_cast<double>(it.key_heads) * it.key_dim,
                 values = static_cast<double>(it.value_heads) * it.value_dim, convolved = 2 * keys + values,
                 per_head = 2 * chunk * it.key_dim + chunk * it.value_dim + 3.0 * it.key_dim * it.value_dim;
    layer.project(h_, convolved + values + 2.0 * it.value_heads, false).project(values, h_, false);
    layer.add_parameters(convolved * it.convolution)
        .add_flops(2 * s_ * convolved * it.convolution)
        .add_parameters(2.0 * it.value_heads + it.value_dim)
        .add_flops(2 * s_ * it.value_heads * per_head);
    // Input; queries, keys and values before and after the convolution; the gate and the rates; the norm's
    // input and output.
    layer.keep_replicated_product_input(h_)
        .keep(2 * convolved + values + 2.0 * it.value_heads + values)
        .keep_product_input(values);
  }

  void add_mlp_of(TokenLayer& layer, Mlp mlp) const {
    const TokenLayer before = layer;
    if (mlp == Mlp::dense)
      add_mlp_matrices(layer, h_, mlp_width(model_), model_.gated, model_.biases.mlp, is_eager());
    if (mlp == Mlp::experts) add_experts(layer);
    layer.count_mlp(before);
  }

  /// A router chooses `per_token` experts for a token. Kept: the input and the router's logits and scores in
  /// fp32; per visit of an expert the input and what an MLP keeps; the same of shared experts, whose input is
  /// that of the layer. Outputs are weighted inside the experts, as in Megatron-Core, and not kept.
  void add_experts(TokenLayer& layer) const {
    constexpr double fp32_bytes = 4;
    const Experts& it = model_.experts;
    const double matrices = model_.gated ? 3 : 2, biases = it.biases ? (matrices - 1) * it.width + h_ : 0;
    layer.project(h_, it.count, it.router_bias).keep_bytes(2 * fp32_bytes * it.count);
    layer.add_experts({static_cast<double>(it.count), static_cast<double>(it.per_token), h_,
                       static_cast<double>(it.width), matrices, biases});
    const TokenLayer before = layer;
    layer.keep_product_input(it.per_token * h_).keep_expert_outputs(it.per_token * it.width);
    layer.keep(it.per_token * (matrices - 1) * it.width);
    if (model_.gated && is_eager()) layer.keep(it.per_token * it.width);
    layer.count_routed(before);
    if (it.shared_width == 0) return void(layer.route_mlp());
    layer.keep_product_input(h_, true);
    add_mlp_matrices(layer, h_, it.shared_width, model_.gated, false, is_eager());
    if (it.shared_gate) layer.project(h_, 1, false);
  }

 private:
  const Transformer& model_;
  ActivationBytes bytes_;
  double h_, s_, v_, e_;  // e: width of the embedding
};

}  // namespace

void add_norm(TokenLayer& layer, double h, double parameters) {
  layer.add_parameters(parameters).keep_replicated(h);
}

void add_attention(TokenLayer& layer, double h, const AttentionShape& it) {
  const double s = layer.tokens();
  layer.project(h, it.queries, it.qkv_bias).project(it.queries, h, it.output_bias);
  for (int matrix = 0; matrix < 2; ++matrix) layer.project(h, it.keys, it.qkv_bias, it.key_tokens);
  layer.keep_replicated_product_input(h)
      .keep(2 * it.queries + 2 * it.keys)
      .keep_product_input(it.queries, true);
  const double flops = 4 * s * it.context * it.queries;
  layer.add_attention(
      flops, it.skipped * flops,
      score_memory(it.heads * s * it.key_tokens, it.stores_scores, it.dropout, layer.bytes().element));
}

void add_mlp(TokenLayer& layer, double h, double width, bool gated, bool bias) {
  layer.keep_replicated_product_input(h);
  add_mlp_matrices(layer, h, width, gated, bias);
}

void add_dropout_masks(TokenLayer& layer, double width) {
  layer.keep_replicated_bytes(width);
}

LayerKinds transformer_kinds(const Transformer& model, ActivationBytes bytes) {
  const LayerMaker maker(model, bytes);
  LayerKinds result{{maker.embedding()}, {}};
  std::vector<BlockKind> kinds;  // in the order in which they appear
  for (int layer = 0; layer < model.layers; ++layer) {
    const BlockKind kind = block_kind(model, layer);
    const auto known = std::find(kinds.begin(), kinds.end(), kind);
    result.kinds_of_layer.push_back({1 + static_cast<int>(known - kinds.begin())});
    if (known == kinds.end()) kinds.push_back(kind);
  }
  for (const BlockKind& kind : kinds)
    result.kinds.push_back(maker.block(kind, kinds.size() == 1 ? "block" : name_of(kind)));
  std::vector<int>& first = result.kinds_of_layer.front();
  first.insert(first.begin(), 0);
  std::vector<int>& last = result.kinds_of_layer.back();
  const auto add_to_last = [&](Layer kind) {
    if (result.kinds.back() != kind) result.kinds.push_back(std::move(kind));
    last.push_back(static_cast<int>(result.kinds.size()) - 1);
  };
  add_to_last(maker.head());
  for (int token = 0; token < model.predicted_tokens; ++token) add_to_last(maker.prediction(token == 0));
  return result;
}

}  // namespace dtfm
