// Compares whole layers (forward, backward and update) with the reference, and the reference with finite
// differences.
#include "kernels/layers.hpp"

#include "tests/kernels/reference_layers.hpp"

namespace dtfm::kernels {
namespace {

using reference::Named;

template <class T>
Numbers from_device(const T* data, std::size_t size) {
  std::vector<T> host(size);
  copy_to_host(host.data(), data, size * sizeof(T));
  Numbers values;
  for (const T value : host) values.push_back(static_cast<double>(to_float(value)));
  return values;
}

template <class L>
std::vector<std::pair<std::string, int>> tensors_of(const L& layer) {
  if constexpr (requires { layer.projection; }) {
    return {{"norm", layer.norm.weight}, {"norm bias", layer.norm.bias}, {"projection", layer.projection}};
  } else {
    return {{"norm1", layer.norm1.weight}, {"norm1 bias", layer.norm1.bias}, {"qkv", layer.qkv_weight},
            {"qkv bias", layer.qkv_bias},  {"out", layer.out_weight},        {"out bias", layer.out_bias},
            {"norm2", layer.norm2.weight}, {"norm2 bias", layer.norm2.bias}, {"up", layer.up_weight},
            {"up bias", layer.up_bias},    {"down", layer.down_weight},      {"down bias", layer.down_bias}};
  }
}

template <class L>
Named read(const L& layer, bool gradients) {
  Named values;
  for (const auto& [name, tensor] : tensors_of(layer))
    if (tensor >= 0)
      values[name] = gradients ? from_device(layer.parameters.gradient(tensor), layer.parameters.size(tensor))
                               : from_device(layer.parameters.weight(tensor), layer.parameters.size(tensor));
  return values;
}

/// Returns the weights after the first Adam step from zero moments: m / (1 − β₁) = g and v / (1 − β₂) = g².
Numbers after_step(const Numbers& weight, const Numbers& gradient, const AdamStep& step) {
  Numbers result = weight;
  for (std::size_t i = 0; i < weight.size(); ++i)
    result[i] -= step.learning_rate *
                 (step.weight_decay * weight[i] + gradient[i] / (std::abs(gradient[i]) + step.epsilon));
  return result;
}

/// Checks y and dx, all gradients, the gradients accumulated a second time, and the update.
template <class T, class L>
void check_layer(Checks& checks, const std::string& name, L& layer, const reference::LayerResult& expected,
                 const Numbers& y, const Numbers& dx) {
  const std::string format = std::string(" ") + name_of<T>();
  checks.near(name + format, y, expected.y, tolerance<T>());
  checks.near(name + " dx" + format, dx, expected.dx, tolerance<T>());
  const Named gradients = read(layer, true), weights = read(layer, false);
  checks.that(name + " has all gradients", gradients.size() == expected.gradients.size());
  for (const auto& [tensor, gradient] : expected.gradients)
    checks.near(name + " d " + tensor + format, gradients.at(tensor), gradient, tolerance<T>());
  layer.forward();
  layer.backward(true);
  const Named twice = read(layer, true);
  for (const auto& [tensor, gradient] : gradients)
    checks.near(name + " twice d " + tensor + format, twice.at(tensor), reference::sum(gradient, gradient),
                tolerance<T>());
  AdamStep step;
  step.learning_rate = 0.1F;
  layer.update(step);
  const Named updated = read(layer, false);
  for (const auto& [tensor, gradient] : twice)
    checks.near(name + " updated " + tensor + format, updated.at(tensor),
                after_step(weights.at(tensor), gradient, step), tolerance<T>());
}

template <class T>
void check_block(Checks& checks, const std::string& name, const TransformerShape& shape) {
  Block<T> layer(shape, 7);
  layer.forward();
  layer.backward(false);
  const auto expected =
      reference::block(shape, numbers_of(layer.x), read(layer, false), numbers_of(layer.dy));
  check_layer<T>(checks, name + " block", layer, expected, numbers_of(layer.y), numbers_of(layer.dx));
}

template <class T>
void check_head(Checks& checks, const std::string& name, const TransformerShape& shape) {
  Head<T> layer(shape, 8);
  layer.forward();
  layer.backward(false);
  const auto expected =
      reference::head(shape, numbers_of(layer.x), read(layer, false), layer.labels.to_host());
  check_layer<T>(checks, name + " head", layer, expected, numbers_of(layer.loss), numbers_of(layer.dx));
}

template <class T>
void check_embedding(Checks& checks, const TransformerShape& shape) {
  Embedding<T> layer(shape, 9);
  layer.forward();
  layer.backward(false);
  const auto width = count(shape.hidden, 1);
  const Numbers tokens =
                    from_device(layer.parameters.weight(layer.tokens), layer.parameters.size(layer.tokens)),
                positions = from_device(layer.parameters.weight(layer.positions),
                                        layer.parameters.size(layer.positions)),
                dy = numbers_of(layer.dy);
  const std::vector<int> ids = layer.ids.to_host();
  Numbers y(dy.size()), gradient(tokens.size());
  for (std::size_t i = 0; i < dy.size(); ++i) {
    const std::size_t token = static_cast<std::size_t>(ids[i / width]) * width + i % width;
    y[i] = tokens[token] + positions[i % positions.size()];
    gradient[token] += dy[i];
  }
  checks.near("embedding layer", layer.y, y);
  checks.near("embedding layer d tokens",
              from_device(layer.parameters.gradient(layer.tokens), gradient.size()), gradient, 1e-5);
  layer.backward(true);
  checks.near("embedding layer twice d tokens",
              from_device(layer.parameters.gradient(layer.tokens), gradient.size()),
              reference::sum(gradient, gradient), 1e-5);
}

/// Checks the reference's gradients of Σ dy·y of a block in x and in every parameter by central differences.
void check_reference(Checks& checks, const TransformerShape& shape) {
  const RankWidths w = rank_widths(shape);
  Numbers x = random_numbers(count(w.rows, shape.hidden), 1);
  const Numbers dy = random_numbers(x.size(), 2);
  Named parameters;
  std::uint64_t seed = 3;
  const auto add = [&](const std::string& name, int size, double mean) {
    parameters[name] = random_numbers(count(size, 1), ++seed, 0.3, mean);
  };
  for (const std::string name : {"norm1", "norm2"}) {
    add(name, shape.hidden, 1);
    if (!shape.rms) add(name + " bias", shape.hidden, 0);
  }
  const auto matrix = [&](const std::string& name, int out, int in) {
    add(name, out * in, 0);
    if (!shape.rms) add(name + " bias", out, 0);
  };
  matrix("qkv", w.qkv, shape.hidden);
  matrix("out", shape.hidden, w.q);
  matrix("up", w.up, shape.hidden);
  matrix("down", shape.hidden, w.ffn);
  const auto total = [&] {
    const Numbers y = reference::block(shape, x, parameters, dy).y;
    double value = 0;
    for (std::size_t i = 0; i < y.size(); ++i) value += y[i] * dy[i];
    return value;
  };
  const auto gradient = reference::block(shape, x, parameters, dy);
  const auto differences = [&](Numbers& of) {
    Numbers result;
    for (double& value : of) {
      const double before = value;
      value = before + 1e-5;
      const double upper = total();
      value = before - 1e-5;
      result.push_back((upper - total()) / 2e-5);
      value = before;
    }
    return result;
  };
  checks.near("reference dx by differences", gradient.dx, differences(x), 1e-7);
  for (auto& [name, values] : parameters)
    checks.near("reference d " + name + " by differences", gradient.gradients.at(name), differences(values),
                1e-7);
}

TransformerShape gpt(int batch, int sequence, int hidden, int heads, int vocabulary) {
  return {batch, sequence, hidden, heads, heads, 4 * hidden, vocabulary};
}

TransformerShape llama(int batch, int sequence, int hidden, int heads, int kv_heads, int ffn,
                       int vocabulary) {
  return {batch, sequence, hidden, heads, kv_heads, ffn, vocabulary, true, true, true};
}

void check_format(Checks& checks, auto format) {
  using T = decltype(format);
  check_block<T>(checks, "GPT", gpt(2, 11, 128, 2, 101));
  check_block<T>(checks, "LLaMA", llama(1, 37, 128, 2, 1, 88, 101));
  check_head<T>(checks, "GPT", gpt(2, 11, 128, 2, 101));
  check_head<T>(checks, "LLaMA", llama(1, 11, 128, 2, 1, 176, 301));
  check_embedding<T>(checks, gpt(2, 19, 128, 2, 31));
  if (!emulated) {
    check_block<T>(checks, "large GPT", gpt(1, 300, 512, 4, 1001));
    check_block<T>(checks, "large LLaMA", llama(2, 200, 512, 8, 2, 1408, 1001));
    check_head<T>(checks, "large GPT", gpt(1, 300, 512, 4, 5003));
  }
}

}  // namespace
}  // namespace dtfm::kernels

int main() {
  using namespace dtfm::kernels;
  return run_checks([](Checks& checks) {
    check_reference(checks, gpt(1, 3, 8, 2, 11));
    check_reference(checks, llama(1, 3, 8, 2, 1, 6, 11));
    for_each_format([&](auto format) { check_format(checks, format); });
    TransformerShape split =
        llama(1, 20, 256, 4, 2, 176, 301);  // one of two ranks has half of the heads and of the MLP
    split.tensor_parallel = 2;
    check_block<Half>(checks, "rank of two", split);
    TransformerShape wide = llama(1, 20, 128, 4, 2, 88, 101);  // heads of 64, not of 128 ÷ 4
    wide.head_size = 64;
    check_block<Half>(checks, "wide heads", wide);
    split.causal = false;
    check_block<Half>(checks, "not causal", split);
  });
}
