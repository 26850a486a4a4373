// Sums what the modules of a layer of a language model compute, hold and keep.
#pragma once

#include <string>

#include "core/model/model.hpp"

namespace dtfm {

/// A layer of which every module reads and writes vectors per token. All sizes are per sequence. Operations
/// are those of matrix products, 2 per multiply-add; backward is twice the forward.
class TokenLayer {
 public:
  /// `element_bytes` is the size of an activation: 2 or 4. The output is `tokens` × `hidden`.
  TokenLayer(std::string name, double tokens, double hidden, double element_bytes);

  double tokens() const { return tokens_; }

  /// A matrix from width `in` to width `out`, applied to `tokens` vectors.
  TokenLayer& project(double in, double out, bool bias, double tokens);
  TokenLayer& project(double in, double out, bool bias) { return project(in, out, bias, tokens_); }
  TokenLayer& add_parameters(double count);
  /// Routed experts, which have `parameters` together and of which a token visits a part: `flops` in all.
  TokenLayer& add_experts(double parameters, double flops);
  /// Scores and weighted sums, which selective recomputation repeats. `memory` is what it then does not keep.
  TokenLayer& add_attention(double flops, Bytes memory);
  /// Other operations that are not of matrices with parameters.
  TokenLayer& add_flops(double flops);

  /// Keeps a vector of `width` numbers per token for the backward pass: divided by tensor parallelism, or
  /// replicated in its groups without sequence parallelism.
  TokenLayer& keep(double width);
  TokenLayer& keep_replicated(double width);
  /// The same in bytes per token, which do not depend on the size of activations.
  TokenLayer& keep_bytes(double bytes);
  TokenLayer& keep_replicated_bytes(double bytes);

  /// The operations so far are never recomputed.
  TokenLayer& as_head();
  /// `count` of the parameters are shared with the first layer.
  TokenLayer& tie(double count);

  Layer layer() const;

 private:
  Layer layer_;
  double tokens_, element_bytes_;
};

}  // namespace dtfm
