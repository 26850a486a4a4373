#include "core/model/image_models.hpp"

#include <set>
#include <string>

#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

double parameters(const LayerChain& chain) {
  return parameters_of(chain.layers, {0, static_cast<int>(chain.layers.size())});
}

double multiply_adds(const LayerChain& chain) {
  double sum = 0;
  for (const Layer& layer : chain.layers) sum += layer.forward.value() / 2;
  return sum;
}

const Layer& named(const LayerChain& chain, const std::string& name) {
  for (const Layer& layer : chain.layers)
    if (layer.name == name) return layer;
  FAIL("no layer " << name);
  return chain.layers.front();
}

}  // namespace

// Published: 25.557 M and 138.358 M parameters, 4.089 and 15.47 G multiply-adds (torchvision's table of
// weights). The 3.8 G of He et al. are for strides in the 1 × 1 convolutions.
TEST_CASE("image models have the published parameters and operations") {
  const LayerChain resnet = resnet_50(224, 1000, 2), vgg = vgg_16(224, 1000, 2);
  CHECK(parameters(resnet) == 25557032);
  CHECK(parameters(vgg) == 138357544);
  CHECK(multiply_adds(resnet) == Approx(4.089e9).epsilon(0.0005));
  CHECK(multiply_adds(vgg) == Approx(15.47e9).epsilon(0.0005));
  CHECK(resnet.sequence == 1);
  CHECK(resnet.input == ModelInput::images);
  CHECK(vgg.input == ModelInput::images);
  CHECK(resnet.input_size.value() == 2 * 3 * 224 * 224);
  CHECK(vgg.input_size.value() == 2 * 3 * 224 * 224);
}

// conv1: 3 · 64 · 7² weights and 2 · 64 of the norm, at 112² positions. It keeps the image, the outputs of
// convolution and norm (64 · 112²), and an index for each of the 64 · 56² maxima.
TEST_CASE("the stem of ResNet-50 has the numbers derived by hand") {
  const Layer stem = resnet_50(224, 1000, 2).layers.front();
  CHECK(stem.parameters == 3 * 64 * 49 + 128);
  CHECK(stem.forward.value() == 2.0 * 3 * 64 * 49 * 112 * 112);
  CHECK(stem.backward.value() == stem.forward.value());
  CHECK(stem.output.value() == 2 * 64 * 56 * 56);
  CHECK(stem.activation_memory.value() == 2 * (3 * 224 * 224 + 2 * 64 * 112 * 112) + 8.0 * 64 * 56 * 56);
}

// conv3_1, stride 2 from 256 × 56² to 512 × 28²: 256 · 128, 9 · 128², 128 · 512 weights, and 256 · 512 of the
// shortcut. The input is kept once although two convolutions read it, and so are the outputs of the three
// convolutions, of the shortcut, and of the first two ReLUs.
TEST_CASE("a residual block with a projection is one layer that includes the shortcut") {
  const Layer block = named(resnet_50(224, 1000, 4), "conv3_1");
  const double before = 56 * 56, after = 28 * 28;
  CHECK(block.parameters == 256 * 128 + 9 * 128 * 128 + 128 * 512 + 256 * 512 + 2 * (128 + 128 + 512 + 512));
  CHECK(block.forward.value() == 2 * (256 * 128 * before + (9 * 128 * 128 + 128 * 512 + 256 * 512) * after));
  CHECK(block.backward.value() == 2 * block.forward.value());
  CHECK(block.output.value() == 4 * 512 * after);
  CHECK(block.activation_memory.value() ==
        4 * (256 * before + 2 * 128 * before + 2 * 128 * after + 2 * 512 * after));
}

TEST_CASE("ResNet-50 has 18 layers of 10 kinds and VGG-16 has 16 layers") {
  const LayerChain resnet = resnet_50(224, 1000, 2);
  CHECK(resnet.layers.size() == 18);
  CHECK(layer_kinds(resnet, 2).kinds.size() == 10);
  CHECK(vgg_16(224, 1000, 2).layers.size() == 16);
  std::set<std::string> names;
  for (const Layer& kind : layer_kinds(resnet, 2).kinds) names.insert(kind.name);
  CHECK(names.size() == 10);
}

// conv1_2: 64 · 64 · 9 weights and 64 biases; it keeps its input, the pooling's input, and an index for each
// of 64 · 112² maxima. fc6: from 512 · 7² to 4096; it keeps its input, the ReLU's output and the dropout's
// mask.
TEST_CASE("layers of VGG-16 have the numbers derived by hand") {
  const LayerChain vgg = vgg_16(224, 1000, 2);
  const Layer &pooled = named(vgg, "conv1_2"), &linear = named(vgg, "fc6");
  CHECK(pooled.parameters == 64 * 64 * 9 + 64);
  CHECK(pooled.forward.value() == 2.0 * 64 * 64 * 9 * 224 * 224);
  CHECK(pooled.output.value() == 2 * 64 * 112 * 112);
  CHECK(pooled.activation_memory.value() == 2 * 2 * 64 * 224.0 * 224 + 8 * 64 * 112.0 * 112);
  CHECK(linear.parameters == 25088 * 4096 + 4096);
  CHECK(linear.forward.value() == 2.0 * 25088 * 4096);
  CHECK(linear.activation_memory.value() == 2 * 25088 + 2 * 4096 + 4096);
  // The parameters do not depend on the image size, because features are averaged to 7 × 7.
  CHECK(parameters(vgg_16(96, 1000, 2)) == 138357544);
  CHECK(vgg_16(96, 1000, 2).layers[0].forward.value() == 2.0 * 27 * 64 * 96 * 96);
}

// 784 · 300 + 300 + 300 · 100 + 100 + 100 · 10 + 10 = 266,610.
TEST_CASE("a perceptron has one layer per pair of consecutive widths") {
  const int widths[] = {784, 300, 100, 10};
  const LayerChain chain = mlp_model(widths, 4);
  REQUIRE(chain.layers.size() == 3);
  CHECK(chain.input == ModelInput::tokens);
  CHECK(chain.input_size.value() == 4 * 784);
  CHECK(parameters(chain) == 266610);
  CHECK(multiply_adds(chain) == 784 * 300 + 300 * 100 + 100 * 10);
  CHECK(chain.layers[0].backward.value() == chain.layers[0].forward.value());
  CHECK(chain.layers[1].backward.value() == 2 * chain.layers[1].forward.value());
  CHECK(chain.layers[1].activation_memory.value() == 4 * 300);
  CHECK(chain.layers[2].activation_memory.value() == 4 * 100 + 4 * 10);
  CHECK(chain.layers[2].output.value() == 4 * 10);
  CHECK(chain.layers[1].head.value() == 0);
  CHECK(chain.layers[2].head.value() == chain.layers[2].forward.value());
}
