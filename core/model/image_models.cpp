#include "core/model/image_models.hpp"

#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm {
namespace {

/// Shape of a tensor: channels × side × side numbers.
struct Shape {
  int channels = 0, side = 1;

  double area() const { return static_cast<double>(side) * side; }
  double elements() const { return channels * area(); }
};

/// Builds one layer of the chain, operation by operation.
class LayerBuilder {
 public:
  LayerBuilder(std::string_view name, Shape input, double element_bytes)
      : element_bytes_(element_bytes), shape_(input) {
    layer_.name = name;
  }

  Shape shape() const { return shape_; }

  /// A convolution, padded so that stride 1 keeps the side.
  LayerBuilder& convolution(int channels, int kernel, int stride, bool biases) {
    keep_input();
    convolve(shape_, channels, kernel, stride, biases);
    return *this;
  }

  LayerBuilder& batch_norm() {
    keep_input();
    layer_.parameters += 2.0 * shape_.channels;
    return *this;
  }

  /// Adds the shortcut of a residual block that began at `input`: a convolution and a batch norm. Its input
  /// is kept by the block's first convolution. Leaves the shape as on the main path.
  LayerBuilder& shortcut(Shape input, int stride) {
    convolve(input, shape_.channels, 1, stride, false);
    return batch_norm();
  }

  LayerBuilder& max_pooling(int kernel, int stride, int padding) {
    constexpr double index_bytes = 8;
    keep_input();
    shape_.side = (shape_.side + 2 * padding - kernel) / stride + 1;
    layer_.activation_memory += Bytes(shape_.elements() * index_bytes);
    return *this;
  }

  LayerBuilder& average_pooling(int side) {
    keep_input();
    shape_.side = side;
    return *this;
  }

  LayerBuilder& linear(int width) {
    keep_input();
    const double weights = shape_.elements() * width;
    layer_.parameters += weights + width;
    layer_.forward += Flops(2 * weights);
    shape_ = {width, 1};
    return *this;
  }

  LayerBuilder& dropout() {
    keep_input();
    layer_.activation_memory += Bytes(shape_.elements());
    return *this;
  }

  Layer layer() const {
    Layer result = layer_;
    result.backward = 2 * result.forward;
    result.output = Bytes(shape_.elements() * element_bytes_);
    return result;
  }

 private:
  void keep_input() { layer_.activation_memory += Bytes(shape_.elements() * element_bytes_); }

  void convolve(Shape input, int channels, int kernel, int stride, bool biases) {
    shape_ = {channels, (input.side + 2 * (kernel / 2) - kernel) / stride + 1};
    const double weights = static_cast<double>(input.channels) * channels * kernel * kernel;
    layer_.parameters += weights + (biases ? channels : 0);
    layer_.forward += Flops(2 * weights * shape_.area());
  }

  double element_bytes_;
  Shape shape_;
  Layer layer_;
};

/// Completes a chain whose first layer reads `input` and whose last layer outputs the scores of a classifier.
LayerChain classifier(Shape input, std::vector<Layer> layers, double element_bytes) {
  constexpr double fp32_bytes = 4;
  layers.front().backward = layers.front().forward;
  Layer& last = layers.back();
  last.head = last.forward;
  last.activation_memory += Bytes(last.output.value() / element_bytes * fp32_bytes);
  return {1, std::move(layers), ModelInput::tokens, Bytes(input.elements() * element_bytes)};
}

LayerChain image_classifier(int image, std::vector<Layer> layers, double element_bytes) {
  constexpr int channels = 3;
  LayerChain chain = classifier({channels, image}, std::move(layers), element_bytes);
  chain.input = ModelInput::images;
  return chain;
}

/// A bottleneck block: three convolutions, the middle one with the stride, with four times `width` output
/// channels.
LayerBuilder bottleneck(std::string_view name, Shape input, int width, int stride, double element_bytes) {
  constexpr int expansion = 4;
  LayerBuilder block(name, input, element_bytes);
  block.convolution(width, 1, 1, false).batch_norm();
  block.convolution(width, 3, stride, false).batch_norm();
  block.convolution(expansion * width, 1, 1, false).batch_norm();
  if (stride != 1 || input.channels != expansion * width) block.shortcut(input, stride);
  return block;
}

}  // namespace

LayerChain resnet_50(int image, int classes, double element_bytes) {
  struct Stage {
    int blocks, width, stride;
  };
  constexpr Stage stages[] = {{3, 64, 1}, {4, 128, 2}, {6, 256, 2}, {3, 512, 2}};
  std::vector<Layer> layers;
  Shape shape{3, image};
  const auto add = [&](const LayerBuilder& builder) {
    layers.push_back(builder.layer());
    shape = builder.shape();
  };
  add(LayerBuilder("conv1", shape, element_bytes)
          .convolution(64, 7, 2, false)
          .batch_norm()
          .max_pooling(3, 2, 1));
  int number = 2;  // names as in the paper; equal blocks share one
  for (const Stage& stage : stages) {
    add(bottleneck(fmt::format("conv{}_1", number), shape, stage.width, stage.stride, element_bytes));
    for (int block = 1; block < stage.blocks; ++block)
      add(bottleneck(fmt::format("conv{}_x", number), shape, stage.width, 1, element_bytes));
    ++number;
  }
  add(LayerBuilder("head", shape, element_bytes).average_pooling(1).linear(classes));
  return image_classifier(image, std::move(layers), element_bytes);
}

LayerChain vgg_16(int image, int classes, double element_bytes) {
  struct Stage {
    int convolutions, channels;
  };
  constexpr Stage stages[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
  constexpr int last_side = 7, hidden = 4096;
  std::vector<Layer> layers;
  Shape shape{3, image};
  const auto add = [&](const LayerBuilder& builder) {
    layers.push_back(builder.layer());
    shape = builder.shape();
  };
  int number = 1;
  for (const Stage& stage : stages) {
    for (int i = 1; i <= stage.convolutions; ++i) {
      LayerBuilder layer(fmt::format("conv{}_{}", number, i), shape, element_bytes);
      layer.convolution(stage.channels, 3, 1, true);
      if (i == stage.convolutions) layer.max_pooling(2, 2, 0);
      add(layer);
    }
    ++number;
  }
  LayerBuilder first("fc6", shape, element_bytes);
  if (shape.side != last_side) first.average_pooling(last_side);
  add(first.linear(hidden).dropout());
  add(LayerBuilder("fc7", shape, element_bytes).linear(hidden).dropout());
  add(LayerBuilder("fc8", shape, element_bytes).linear(classes));
  return image_classifier(image, std::move(layers), element_bytes);
}

LayerChain mlp_model(std::span<const int> widths, double element_bytes) {
  DTFM_ASSERT(widths.size() >= 2);
  std::vector<Layer> layers;
  for (std::size_t i = 1; i < widths.size(); ++i)
    layers.push_back(LayerBuilder("linear" + std::to_string(i), {widths[i - 1], 1}, element_bytes)
                         .linear(widths[i])
                         .layer());
  return classifier({widths.front(), 1}, std::move(layers), element_bytes);
}

}  // namespace dtfm
