// The layers of a transformer with all their buffers, run as a trainer would: forward, backward, optimizer
// step. Dropout is off, nothing is recomputed, and what tensor-parallel ranks would send one another is left
// out.
#pragma once

#include <memory>

#include "kernels/attention.hpp"
#include "kernels/parameters.hpp"
#include "kernels/transformer.hpp"

namespace dtfm::kernels {

class Layer {
 public:
  virtual ~Layer() = default;
  virtual void forward() = 0;
  /// Of the last forward pass. `accumulate` adds to the parameters' gradients: every micro-batch but the
  /// first.
  virtual void backward(bool accumulate) = 0;
  virtual void update(const AdamStep& step) = 0;
  virtual void zero_gradients() = 0;
  /// Held from a layer's forward pass to its backward pass, its input with it.
  virtual std::size_t activation_bytes() const = 0;
  /// All that is allocated: parameters and their state, activations, output, gradients, workspace.
  virtual std::size_t total_bytes() const = 0;
};

/// With inputs and output gradients drawn at random. Throws DeviceError: a shape that cannot be, memory that
/// is out.
std::unique_ptr<Layer> make_layer(const TransformerShape& shape, LayerKind kind, std::uint64_t seed = 1);

/// The layers themselves, for tests that look inside. Matrices are rows × columns, weights outputs × inputs.
template <class T>
struct Block final : Layer {
  Block(const TransformerShape& shape, std::uint64_t seed);
  void forward() override;
  void backward(bool accumulate) override;
  void update(const AdamStep& step) override { parameters.update(step); }
  void zero_gradients() override { parameters.zero_gradients(); }
  std::size_t activation_bytes() const override;
  std::size_t total_bytes() const override;

  TransformerShape shape;
  RankWidths widths;
  Parameters<T> parameters;
  int norm1, norm1_bias, qkv_weight, qkv_bias, out_weight, out_bias;  // −1: a bias that is not there
  int norm2, norm2_bias, up_weight, up_bias, down_weight, down_bias;
  DeviceArray<T> x, h1, qkv, attended, sum, h2, up, activated;  // kept for the backward pass, in this order
  DeviceArray<float> mean1, rstd1, log_sum_exp, mean2, rstd2;
  DeviceArray<T> y, dy, dx;
  DeviceArray<T> dsum, dhidden, dattended, dqkv, dup, dactivated;
  DeviceArray<float> workspace;

 private:
  void attend();
  void attend_backward();
  void norm(int which, bool accumulate);
  T* weight(int tensor) const { return tensor < 0 ? nullptr : parameters.weight(tensor); }
  T* gradient(int tensor) const { return tensor < 0 ? nullptr : parameters.gradient(tensor); }
};

template <class T>
struct Embedding final : Layer {
  Embedding(const TransformerShape& shape, std::uint64_t seed);
  void forward() override;
  void backward(bool accumulate) override;
  void update(const AdamStep& step) override { parameters.update(step); }
  void zero_gradients() override { parameters.zero_gradients(); }
  std::size_t activation_bytes() const override { return ids.bytes(); }
  std::size_t total_bytes() const override {
    return parameters.bytes() + ids.bytes() + y.bytes() + dy.bytes();
  }

  TransformerShape shape;
  RankWidths widths;
  Parameters<T, float> parameters;  // rows of gradients are summed atomically, which wants float
  int tokens, positions;            // −1: rotary models have no table of positions
  DeviceArray<int> ids;
  DeviceArray<T> y, dy;
};

/// The loss is a sum over tokens; where training means their mean, the optimizer's gradient_scale divides.
template <class T>
struct Head final : Layer {
  Head(const TransformerShape& shape, std::uint64_t seed);
  void forward() override;
  void backward(bool accumulate) override;
  void update(const AdamStep& step) override { parameters.update(step); }
  void zero_gradients() override { parameters.zero_gradients(); }
  std::size_t activation_bytes() const override;
  std::size_t total_bytes() const override;

  TransformerShape shape;
  RankWidths widths;
  Parameters<T> parameters;
  int norm, norm_bias, projection;
  DeviceArray<int> labels;
  DeviceArray<T> x, h, logits;  // the logits become their gradient in the forward pass
  DeviceArray<float> mean, rstd, loss;
  DeviceArray<T> dh, dx;
  DeviceArray<float> workspace;
};

}  // namespace dtfm::kernels
