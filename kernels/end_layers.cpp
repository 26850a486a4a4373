// The first and the last layer of a transformer: embedding and head.
#include <algorithm>

#include "kernels/cross_entropy.hpp"
#include "kernels/embedding.hpp"
#include "kernels/layers.hpp"
#include "kernels/linear.hpp"
#include "kernels/norm.hpp"

namespace dtfm::kernels {

template <class T>
Embedding<T>::Embedding(const TransformerShape& of, std::uint64_t seed) : shape(of), widths(rank_widths(of)) {
  tokens = parameters.add(numbers(widths.padded_vocabulary, shape.hidden), 0, initial_deviation);
  positions = shape.rotary ? -1 : parameters.add(numbers(shape.sequence, shape.hidden), 0, initial_deviation);
  parameters.allocate(seed);
  ids = DeviceArray<int>(numbers(widths.rows, 1));
  for (auto* array : {&y, &dy}) *array = DeviceArray<T>(numbers(widths.rows, shape.hidden));
  fill_random_integers(ids.data(), widths.rows, seed + 1, widths.vocabulary);
  fill_random(dy.data(), static_cast<std::int64_t>(dy.size()), seed + 2, 0, 1);
}

template <class T>
void Embedding<T>::forward() {
  embedding_forward<T>(widths.rows, shape.hidden, shape.sequence, ids.data(), parameters.weight(tokens),
                       positions < 0 ? nullptr : parameters.weight(positions), y.data());
}

template <class T>
void Embedding<T>::backward(bool accumulate) {
  if (!accumulate) parameters.zero_gradients();
  embedding_backward<T>(widths.rows, shape.hidden, shape.sequence, ids.data(), dy.data(),
                        parameters.gradient(tokens), positions < 0 ? nullptr : parameters.gradient(positions),
                        accumulate);
}

template <class T>
Head<T>::Head(const TransformerShape& of, std::uint64_t seed) : shape(of), widths(rank_widths(of)) {
  const int rows = widths.rows;
  norm.weight = parameters.add(numbers(1, shape.hidden), 1, initial_deviation);
  norm.bias = shape.rms ? -1 : parameters.add(numbers(1, shape.hidden), 0, initial_deviation);
  projection = parameters.add(numbers(widths.padded_vocabulary, shape.hidden), 0, initial_deviation);
  parameters.allocate(seed);
  for (auto* array : {&x, &h, &dh, &dx}) *array = DeviceArray<T>(numbers(rows, shape.hidden));
  logits = DeviceArray<T>(numbers(rows, widths.padded_vocabulary));
  for (auto* array : {&norm.mean, &norm.rstd, &loss}) *array = DeviceArray<float>(numbers(rows, 1));
  labels = DeviceArray<int>(numbers(rows, 1));
  workspace = DeviceArray<float>(norm_workspace(rows, shape.hidden));
  fill_random(x.data(), static_cast<std::int64_t>(x.size()), seed + 1, 0, 1);
  fill_random_integers(labels.data(), rows, seed + 2, widths.vocabulary);
}

template <class T>
void Head<T>::forward() {
  NormForward<T> in{widths.rows, shape.hidden, shape.rms};
  in.x = x.data();
  in.weight = parameters.weight(norm.weight);
  in.bias = norm.bias < 0 ? nullptr : parameters.weight(norm.bias);
  in.y = h.data();
  in.mean = norm.mean.data();
  in.rstd = norm.rstd.data();
  norm_forward(in);
  linear(widths.rows, widths.padded_vocabulary, shape.hidden, h.data(), parameters.weight(projection),
         logits.data());
  cross_entropy<T>(widths.rows, widths.vocabulary, widths.padded_vocabulary, logits.data(), labels.data(), 1,
                   loss.data());
}

template <class T>
void Head<T>::backward(bool accumulate) {
  linear_backward(widths.rows, widths.padded_vocabulary, shape.hidden, h.data(),
                  parameters.weight(projection), logits.data(), dh.data(), parameters.gradient(projection),
                  accumulate);
  NormBackward<T> in{widths.rows, shape.hidden, shape.rms};
  in.x = x.data();
  in.dy = dh.data();
  in.weight = parameters.weight(norm.weight);
  in.mean = norm.mean.data();
  in.rstd = norm.rstd.data();
  in.dx = dx.data();
  in.weight_gradient = parameters.gradient(norm.weight);
  in.bias_gradient = norm.bias < 0 ? nullptr : parameters.gradient(norm.bias);
  in.accumulate = accumulate;
  in.workspace = workspace.data();
  norm_backward(in);
}

template <class T>
std::size_t Head<T>::activation_bytes() const {
  return x.bytes() + h.bytes() + logits.bytes() + norm.mean.bytes() + norm.rstd.bytes() + labels.bytes();
}

template <class T>
std::size_t Head<T>::total_bytes() const {
  return parameters.bytes() + activation_bytes() + loss.bytes() + dh.bytes() + dx.bytes() + workspace.bytes();
}

template struct Embedding<float>;
template struct Embedding<Half>;
template struct Embedding<Bfloat16>;
template struct Head<float>;
template struct Head<Half>;
template struct Head<Bfloat16>;

namespace {

template <class T>
std::unique_ptr<Layer> make(const TransformerShape& shape, LayerKind kind, std::uint64_t seed) {
  if (kind == LayerKind::embedding) return std::make_unique<Embedding<T>>(shape, seed);
  if (kind == LayerKind::head) return std::make_unique<Head<T>>(shape, seed);
  return std::make_unique<Block<T>>(shape, seed);
}

}  // namespace

std::unique_ptr<Layer> make_layer(const TransformerShape& shape, LayerKind kind, std::uint64_t seed) {
  check_shape(shape);
  if (shape.dtype == DType::f16) return make<Half>(shape, kind, seed);
  if (shape.dtype == DType::bf16) return make<Bfloat16>(shape, kind, seed);
  return make<float>(shape, kind, seed);
}

}  // namespace dtfm::kernels
