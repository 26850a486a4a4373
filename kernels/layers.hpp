// The layers of a transformer with all their buffers, run as a trainer would run them: forward, backward,
// optimizer step. Dropout is off, nothing is recomputed, and communication between tensor-parallel ranks is
// omitted.
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
  /// Backward pass of the last forward pass. `accumulate` adds to the parameters' gradients, as for every
  /// micro-batch but the first.
  virtual void backward(bool accumulate) = 0;
  virtual void update(const AdamStep& step) = 0;
  virtual void zero_gradients() = 0;
  /// Bytes held from a layer's forward pass to its backward pass, including its input.
  virtual std::size_t activation_bytes() const = 0;
  /// Bytes of all allocations: parameters and their state, activations, output, gradients, workspace.
  virtual std::size_t total_bytes() const = 0;
};

/// Creates a layer with random inputs and output gradients. Throws DeviceError for an invalid shape, and if
/// memory is insufficient.
std::unique_ptr<Layer> make_layer(const TransformerShape& shape, LayerKind kind, std::uint64_t seed = 1);

/// The parameters of a norm, and the statistics of every row of its input, kept for the backward pass.
struct Norm {
  int weight, bias;  // −1: the bias does not exist
  DeviceArray<float> mean, rstd;
};

/// The layers themselves, for tests that inspect their buffers. Matrices are rows × columns, weights outputs
/// × inputs.
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
  Norm norm1, norm2;
  int qkv_weight, qkv_bias, out_weight, out_bias;  // −1: the bias does not exist
  int up_weight, up_bias, down_weight, down_bias;
  DeviceArray<T> x, h1, qkv, attended, sum, h2, up, activated;  // kept for the backward pass, in this order
  DeviceArray<float> log_sum_exp;
  DeviceArray<T> y, dy, dx;
  DeviceArray<T> dsum, dhidden, dattended, dqkv, dup, dactivated;
  DeviceArray<float> workspace;

 private:
  void attend();
  void attend_backward();
  void norm_backward(bool first, bool accumulate);
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
  Parameters<T, float> parameters;  // gradients are float because rows are summed atomically
  int tokens, positions;            // −1: rotary models have no position table
  DeviceArray<int> ids;
  DeviceArray<T> y, dy;
};

/// The loss is the sum over tokens. Where training uses the mean, the optimizer's gradient_scale divides by
/// their number.
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
  Norm norm;
  int projection;
  DeviceArray<int> labels;
  DeviceArray<T> x, h, logits;  // the forward pass replaces the logits by their gradient
  DeviceArray<float> loss;
  DeviceArray<T> dh, dx;
  DeviceArray<float> workspace;
};

}  // namespace dtfm::kernels
