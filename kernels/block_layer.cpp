#include <algorithm>

#include "kernels/column_sum.hpp"
#include "kernels/layers.hpp"
#include "kernels/linear.hpp"
#include "kernels/norm.hpp"
#include "kernels/pointwise.hpp"

namespace dtfm::kernels {

template <class T>
Block<T>::Block(const TransformerShape& of, std::uint64_t seed) : shape(of), widths(rank_widths(of)) {
  const RankWidths& w = widths;
  const auto bias = [&](int size) {
    return shape.rms ? -1 : parameters.add(numbers(1, size), 0, initial_deviation);
  };
  const auto matrix = [&](int out, int in) { return parameters.add(numbers(out, in), 0, initial_deviation); };
  const auto norm_weight = [&] { return parameters.add(numbers(1, shape.hidden), 1, initial_deviation); };
  norm1.weight = norm_weight();
  norm1.bias = bias(shape.hidden);
  qkv_weight = matrix(w.qkv, shape.hidden);
  qkv_bias = bias(w.qkv);
  out_weight = matrix(shape.hidden, w.q);
  out_bias = bias(shape.hidden);
  norm2.weight = norm_weight();
  norm2.bias = bias(shape.hidden);
  up_weight = matrix(w.up, shape.hidden);
  up_bias = bias(w.up);
  down_weight = matrix(shape.hidden, w.ffn);
  down_bias = bias(shape.hidden);
  parameters.allocate(seed);

  for (auto* array : {&x, &h1, &sum, &h2, &y, &dy, &dx, &dsum, &dhidden})
    *array = DeviceArray<T>(numbers(w.rows, shape.hidden));
  for (auto* array : {&qkv, &dqkv}) *array = DeviceArray<T>(numbers(w.rows, w.qkv));
  for (auto* array : {&attended, &dattended}) *array = DeviceArray<T>(numbers(w.rows, w.q));
  for (auto* array : {&up, &dup}) *array = DeviceArray<T>(numbers(w.rows, w.up));
  for (auto* array : {&activated, &dactivated}) *array = DeviceArray<T>(numbers(w.rows, w.ffn));
  for (auto* array : {&norm1.mean, &norm1.rstd, &norm2.mean, &norm2.rstd})
    *array = DeviceArray<float>(numbers(w.rows, 1));
  log_sum_exp = DeviceArray<float>(numbers(w.rows, w.heads));
  workspace = DeviceArray<float>(
      std::max({attention_workspace({shape.batch, shape.sequence, w.heads, w.kv_heads, w.head_size}),
                norm_workspace(w.rows, shape.hidden), column_sum_workspace(w.rows, shape.hidden),
                column_sum_workspace(w.rows, std::max(w.up, w.qkv))}));
  fill_random(x.data(), static_cast<std::int64_t>(x.size()), seed + 1, 0, 1);
  fill_random(dy.data(), static_cast<std::int64_t>(dy.size()), seed + 2, 0, 1);
}

template <class T>
void Block<T>::forward() {
  const RankWidths& w = widths;
  NormForward<T> first{w.rows, shape.hidden, shape.rms};
  first.x = x.data();
  first.weight = weight(norm1.weight);
  first.bias = weight(norm1.bias);
  first.y = h1.data();
  first.mean = norm1.mean.data();
  first.rstd = norm1.rstd.data();
  norm_forward(first);
  linear(w.rows, w.qkv, shape.hidden, h1.data(), weight(qkv_weight), qkv.data());
  attend();
  linear(w.rows, shape.hidden, w.q, attended.data(), weight(out_weight), y.data());

  NormForward<T> second = first;
  second.x = y.data();
  second.residual = x.data();
  second.added_bias = weight(out_bias);
  second.sum = sum.data();
  second.weight = weight(norm2.weight);
  second.bias = weight(norm2.bias);
  second.y = h2.data();
  second.mean = norm2.mean.data();
  second.rstd = norm2.rstd.data();
  norm_forward(second);
  linear(w.rows, w.up, shape.hidden, h2.data(), weight(up_weight), up.data());
  if (shape.gated)
    gated_silu_forward<T>(w.rows, w.ffn, up.data(), weight(up_bias), activated.data());
  else
    gelu_forward<T>(w.rows, w.ffn, up.data(), weight(up_bias), activated.data());
  linear(w.rows, shape.hidden, w.ffn, activated.data(), weight(down_weight), y.data());
  add_residual<T>(w.rows, shape.hidden, y.data(), sum.data(), weight(down_bias), y.data());
}

template <class T>
void Block<T>::attend() {
  const RankWidths& w = widths;
  if (shape.rotary || qkv_bias >= 0)
    bias_rotary<T>(w.rows, w.qkv, shape.sequence, w.head_size, shape.rotary ? w.heads + w.kv_heads : 0, false,
                   weight(qkv_bias), qkv.data());
  AttentionForward<T> attention{{shape.batch, shape.sequence, w.heads, w.kv_heads, w.head_size, shape.causal},
                                w.qkv};
  attention.q = qkv.data();
  attention.k = qkv.data() + w.q;
  attention.v = qkv.data() + w.q + w.kv;
  attention.out = attended.data();
  attention.log_sum_exp = log_sum_exp.data();
  attention_forward(attention);
}

template <class T>
void Block<T>::attend_backward() {
  const RankWidths& w = widths;
  AttentionBackward<T> attention;
  attention.forward = {{shape.batch, shape.sequence, w.heads, w.kv_heads, w.head_size, shape.causal}, w.qkv};
  attention.forward.q = qkv.data();
  attention.forward.k = qkv.data() + w.q;
  attention.forward.v = qkv.data() + w.q + w.kv;
  attention.forward.out = attended.data();
  attention.forward.log_sum_exp = log_sum_exp.data();
  attention.dout = dattended.data();
  attention.dq = dqkv.data();
  attention.dk = dqkv.data() + w.q;
  attention.dv = dqkv.data() + w.q + w.kv;
  attention.workspace = workspace.data();
  attention_backward(attention);
  if (shape.rotary)
    bias_rotary<T>(w.rows, w.qkv, shape.sequence, w.head_size, w.heads + w.kv_heads, true, nullptr,
                   dqkv.data());
}

/// Propagates dhidden back through one of the two norms and adds the residual's gradient.
template <class T>
void Block<T>::norm_backward(bool first, bool accumulate) {
  const Norm& norm = first ? norm1 : norm2;
  NormBackward<T> in{widths.rows, shape.hidden, shape.rms};
  in.x = first ? x.data() : sum.data();
  in.dy = dhidden.data();
  in.weight = weight(norm.weight);
  in.mean = norm.mean.data();
  in.rstd = norm.rstd.data();
  in.residual_gradient = first ? dsum.data() : dy.data();
  in.dx = first ? dx.data() : dsum.data();
  in.weight_gradient = gradient(norm.weight);
  in.bias_gradient = gradient(norm.bias);
  in.accumulate = accumulate;
  in.workspace = workspace.data();
  kernels::norm_backward(in);
}

template <class T>
void Block<T>::backward(bool accumulate) {
  const RankWidths& w = widths;
  const auto bias = [&](int tensor, const DeviceArray<T>& of, int columns) {
    if (tensor >= 0)
      column_sum<T>(of.data(), w.rows, columns, columns, gradient(tensor), accumulate, workspace.data());
  };
  bias(down_bias, dy, shape.hidden);
  linear_backward(w.rows, shape.hidden, w.ffn, activated.data(), weight(down_weight), dy.data(),
                  dactivated.data(), gradient(down_weight), accumulate);
  if (shape.gated)
    gated_silu_backward<T>(w.rows, w.ffn, up.data(), weight(up_bias), dactivated.data(), dup.data());
  else
    gelu_backward<T>(w.rows, w.ffn, up.data(), weight(up_bias), dactivated.data(), dup.data());
  bias(up_bias, dup, w.up);
  linear_backward(w.rows, w.up, shape.hidden, h2.data(), weight(up_weight), dup.data(), dhidden.data(),
                  gradient(up_weight), accumulate);
  norm_backward(false, accumulate);
  bias(out_bias, dsum, shape.hidden);
  linear_backward(w.rows, shape.hidden, w.q, attended.data(), weight(out_weight), dsum.data(),
                  dattended.data(), gradient(out_weight), accumulate);
  attend_backward();
  bias(qkv_bias, dqkv, w.qkv);
  linear_backward(w.rows, w.qkv, shape.hidden, h1.data(), weight(qkv_weight), dqkv.data(), dhidden.data(),
                  gradient(qkv_weight), accumulate);
  norm_backward(true, accumulate);
}

template <class T>
std::size_t Block<T>::activation_bytes() const {
  std::size_t bytes = 0;
  for (const auto* array : {&x, &h1, &qkv, &attended, &sum, &h2, &up, &activated}) bytes += array->bytes();
  for (const auto* array : {&norm1.mean, &norm1.rstd, &log_sum_exp, &norm2.mean, &norm2.rstd})
    bytes += array->bytes();
  return bytes;
}

template <class T>
std::size_t Block<T>::total_bytes() const {
  std::size_t bytes = parameters.bytes() + activation_bytes() + workspace.bytes();
  for (const auto* array : {&y, &dy, &dx, &dsum, &dhidden, &dattended, &dqkv, &dup, &dactivated})
    bytes += array->bytes();
  return bytes;
}

template struct Block<float>;
template struct Block<Half>;
template struct Block<Bfloat16>;

}  // namespace dtfm::kernels
