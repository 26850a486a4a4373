// Sums what the modules of a layer of a language model compute, hold and keep.
#pragma once

#include <string>

#include "core/model/model.hpp"

namespace dtfm {

/// `count` experts of `matrices` matrices of hidden × width and of `biases` biases each, of which a token
/// visits `per_token`.
struct ExpertSizes {
  double count, per_token, hidden, width, matrices, biases;
};

/// A layer of which every module reads and writes vectors per token. All sizes are per sequence. Operations
/// are those of matrix products, 2 per multiply-add; backward is twice the forward.
class TokenLayer {
 public:
  /// The output is `tokens` × `hidden`.
  TokenLayer(std::string name, double tokens, double hidden, ActivationBytes bytes);

  double tokens() const { return tokens_; }
  const ActivationBytes& bytes() const { return bytes_; }

  /// A matrix from width `in` to width `out`, applied to `tokens` vectors.
  TokenLayer& project(double in, double out, bool bias, double tokens);
  TokenLayer& project(double in, double out, bool bias) { return project(in, out, bias, tokens_); }
  /// The same with a matrix that belongs to another layer.
  TokenLayer& project_by_shared(double in, double out);
  TokenLayer& add_parameters(double count);
  /// Routed experts.
  TokenLayer& add_experts(const ExpertSizes& experts);
  /// An MLP consists of them alone.
  TokenLayer& route_mlp();
  /// Counts what was added since `before` as an MLP, without its input.
  TokenLayer& count_mlp(const TokenLayer& before);
  /// Counts the activations kept since `before` as those of routed experts.
  TokenLayer& count_routed(const TokenLayer& before);
  /// Keeps the outputs of the activation functions of routed experts, so many numbers per token.
  TokenLayer& keep_expert_outputs(double width);
  /// Scores and weighted sums, which keep `memory`. A fused kernel skips `skipped` of the operations.
  TokenLayer& add_attention(double flops, double skipped, Bytes memory);
  /// Per token: numbers in keys and values, and numbers in queries and outputs of attention.
  TokenLayer& add_attention_vectors(double keys_values, double queries_outputs);
  /// Other operations, which are not of matrices with parameters.
  TokenLayer& add_flops(double flops);

  /// Keeps a vector of `width` numbers per token for the backward pass: divided by tensor parallelism, or
  /// replicated in its groups without sequence parallelism.
  TokenLayer& keep(double width);
  TokenLayer& keep_replicated(double width);
  /// Keeps the input of a matrix product in the format of the product. What another operation keeps anyway
  /// (`is_kept`) is kept once more only if it is quantized.
  TokenLayer& keep_product_input(double width, bool is_kept = false);
  TokenLayer& keep_replicated_product_input(double width);
  /// The same in bytes per token, which do not depend on the size of activations.
  TokenLayer& keep_bytes(double bytes);
  TokenLayer& keep_replicated_bytes(double bytes);
  /// So many bytes per token of what is replicated stay whole with sequence parallelism, too: of the input of
  /// a matrix product.
  TokenLayer& gather(double bytes);
  TokenLayer& gather_product_input(double width);

  /// The matrices so far are neither quantized nor orthogonalized.
  TokenLayer& outside_of_blocks();
  /// The same, and the operations so far are never recomputed.
  TokenLayer& as_head();
  /// `count` of the parameters are shared with the first layer.
  TokenLayer& tie(double count);

  Layer layer() const;

 private:
  Layer layer_;
  double tokens_;
  ActivationBytes bytes_;
};

}  // namespace dtfm
