// A block and a head of a transformer in double precision, composed from reference.hpp.
#pragma once

#include <map>

#include "kernels/transformer.hpp"
#include "tests/kernels/reference.hpp"

namespace dtfm::kernels::reference {

using Named =
    std::map<std::string, Numbers>;  // parameters or their gradients; without biases if RMS norm is used

struct LayerResult {
  Numbers y, dx;
  Named gradients;
};

inline Numbers columns_of(const Numbers& matrix, int columns, int first, int width) {
  Numbers part;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    const int column = static_cast<int>(i % count(columns, 1));
    if (column >= first && column < first + width) part.push_back(matrix[i]);
  }
  return part;
}

inline Numbers side_by_side(const std::vector<Numbers>& parts, int rows) {
  Numbers whole;
  for (std::size_t r = 0; r < count(rows, 1); ++r)
    for (const Numbers& part : parts) {
      const auto width = static_cast<std::ptrdiff_t>(part.size() / count(rows, 1));
      const auto first = part.begin() + static_cast<std::ptrdiff_t>(r) * width;
      whole.insert(whole.end(), first, first + width);
    }
  return whole;
}

/// A linear layer: y = x · weightᵀ + bias, and its gradients, which are stored under the parameters' names.
struct Linear {
  int rows, in, out;
  std::string weight, bias;

  Numbers forward(const Numbers& x, const Named& parameters) const {
    const Numbers y = product(false, true, rows, out, in, x, parameters.at(weight));
    return parameters.count(bias) != 0 ? with_bias(y, parameters.at(bias)) : y;
  }
  Numbers backward(const Numbers& x, const Numbers& dy, const Named& parameters, Named& gradients) const {
    gradients[weight] = product(true, false, out, in, rows, dy, x);
    if (parameters.count(bias) != 0) gradients[bias] = sum_of_rows(dy, count(out, 1));
    return product(false, false, rows, in, out, dy, parameters.at(weight));
  }
};

inline Numbers bias_or_none(const Named& parameters, const std::string& name, int width) {
  return parameters.count(name) != 0 ? parameters.at(name) : Numbers(count(width, 1));
}

inline Numbers norm_back(const TransformerShape& s, int rows, const Numbers& x, const Numbers& dy,
                         const std::string& name, const Named& parameters, Named& gradients) {
  const auto g = norm_gradient(rows, s.hidden, s.rms, x, parameters.at(name), dy);
  gradients[name] = g.dweight;
  if (!s.rms) gradients[name + " bias"] = g.dbias;
  return g.dx;
}

/// Returns the MLP's activation, or its gradient if dy is given.
inline Numbers activation(const TransformerShape& s, int ffn, const Numbers& up, const Numbers* dy) {
  const auto width = count(ffn, 1);
  Numbers result(dy != nullptr ? up.size() : up.size() / (s.gated ? 2 : 1));
  for (std::size_t i = 0; i < up.size() / (s.gated ? 2 : 1); ++i) {
    const std::size_t g = s.gated ? 2 * (i / width * width) + i % width : i, u = g + width;
    if (dy == nullptr) {
      result[i] = s.gated ? silu(up[g]) * up[u] : gelu(up[i]);
    } else if (s.gated) {
      result[g] = (*dy)[i] * up[u] * silu_slope(up[g]);
      result[u] = (*dy)[i] * silu(up[g]);
    } else {
      result[i] = (*dy)[i] * gelu_slope(up[i]);
    }
  }
  return result;
}

inline LayerResult block(const TransformerShape& s, const Numbers& x, const Named& parameters,
                         const Numbers& dy) {
  const RankWidths w = rank_widths(s);
  const int turned = s.rotary ? w.heads + w.kv_heads : 0;
  const Linear qkv_map{w.rows, s.hidden, w.qkv, "qkv", "qkv bias"},
      out_map{w.rows, w.q, s.hidden, "out", "out bias"}, up_map{w.rows, s.hidden, w.up, "up", "up bias"},
      down_map{w.rows, w.ffn, s.hidden, "down", "down bias"};
  const auto normed = [&](const Numbers& of, const std::string& name) {
    return norm(w.rows, s.hidden, s.rms, of, parameters.at(name),
                bias_or_none(parameters, name + " bias", s.hidden))
        .y;
  };
  const AttentionShape shape{s.batch, s.sequence, w.heads, w.kv_heads, w.head_size, s.causal};
  LayerResult r;

  const Numbers h1 = normed(x, "norm1");
  const Numbers qkv = rotated(qkv_map.forward(h1, parameters), w.qkv, s.sequence, w.head_size, turned);
  const Numbers q = columns_of(qkv, w.qkv, 0, w.q), k = columns_of(qkv, w.qkv, w.q, w.kv),
                v = columns_of(qkv, w.qkv, w.q + w.kv, w.kv);
  const Numbers attended = attention(shape, q, k, v, Numbers(q.size())).out;
  const Numbers sum1 = sum(x, out_map.forward(attended, parameters));
  const Numbers h2 = normed(sum1, "norm2");
  const Numbers up = up_map.forward(h2, parameters);
  const Numbers activated = activation(s, w.ffn, up, nullptr);
  r.y = sum(sum1, down_map.forward(activated, parameters));

  const Numbers dactivated = down_map.backward(activated, dy, parameters, r.gradients);
  const Numbers dup = activation(s, w.ffn, up, &dactivated);
  const Numbers dh2 = up_map.backward(h2, dup, parameters, r.gradients);
  const Numbers dsum = sum(dy, norm_back(s, w.rows, sum1, dh2, "norm2", parameters, r.gradients));
  const Numbers dattended = out_map.backward(attended, dsum, parameters, r.gradients);
  const auto d = attention(shape, q, k, v, dattended);
  const Numbers dqkv =
      rotated(side_by_side({d.dq, d.dk, d.dv}, w.rows), w.qkv, s.sequence, w.head_size, turned, -1);
  const Numbers dh1 = qkv_map.backward(h1, dqkv, parameters, r.gradients);
  r.dx = sum(dsum, norm_back(s, w.rows, x, dh1, "norm1", parameters, r.gradients));
  return r;
}

/// y is the loss of each token; gradients are those of the sum of losses.
inline LayerResult head(const TransformerShape& s, const Numbers& x, const Named& parameters,
                        const std::vector<int>& labels) {
  const RankWidths w = rank_widths(s);
  const Linear map{w.rows, s.hidden, w.padded_vocabulary, "projection", ""};
  const Numbers h =
      norm(w.rows, s.hidden, s.rms, x, parameters.at("norm"), bias_or_none(parameters, "norm bias", s.hidden))
          .y;
  const auto loss =
      cross_entropy(w.rows, w.vocabulary, w.padded_vocabulary, map.forward(h, parameters), labels, 1);
  LayerResult r;
  r.y = loss.loss;
  const Numbers dh = map.backward(h, loss.gradient, parameters, r.gradients);
  r.dx = norm_back(s, w.rows, x, dh, "norm", parameters, r.gradients);
  return r;
}

}  // namespace dtfm::kernels::reference
