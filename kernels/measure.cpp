#include "kernels/measure.hpp"

#include <exception>
#include <memory>

#include "kernels/layers.hpp"
#include "kernels/platform/device.hpp"
#include "kernels/timing.hpp"

namespace dtfm::kernels {
namespace {

/// Creates as many layers as the cache requires and memory permits, at least one.
std::vector<std::unique_ptr<Layer>> layers_in_rotation(const TransformerShape& shape, LayerKind kind) {
  std::vector<std::unique_ptr<Layer>> layers;
  layers.push_back(make_layer(shape, kind));
  const std::size_t bytes = layers.front()->total_bytes();
  const int wanted = rotation(static_cast<double>(bytes));
  while (static_cast<int>(layers.size()) < wanted && has_room(bytes))
    layers.push_back(make_layer(shape, kind, layers.size() + 1));
  for (const auto& layer : layers) layer->forward();  // the first backward passes belong to these
  return layers;
}

LayerTimes measure_layer(const TransformerShape& shape, LayerKind kind, int runs) {
  const auto layers = layers_in_rotation(shape, kind);
  const auto layer = [&](int index) -> Layer& { return *layers[static_cast<std::size_t>(index)]; };
  const auto turn = [&](int run) { return turn_of(run, static_cast<int>(layers.size())); };
  DeviceState state = device_state();  // opens NVML before the measurement
  AdamStep step;
  step.learning_rate = 1e-6F;  // small enough that the weights hardly change, however long it runs
  const auto times = time_steps(
      {runs, device_limits().settling_seconds / 2, device_limits().settling_seconds},
      {[&](int run) { layer(turn(run).forward).forward(); },
       [&](int run) { layer(turn(run).backward).backward(true); },
       [&](int run) { layer(turn(run).update).update(step); }},
      [&](int run) { layer(turn(run).update).zero_gradients(); }, [&] { state = device_state(); });
  LayerTimes row;
  row.kind = kind;
  row.micro_batch = shape.batch;
  row.tensor_parallel = shape.tensor_parallel;
  row.forward_s = times[0].seconds;
  row.backward_s = times[1].seconds;
  row.update_s = times[2].seconds;
  row.forward_spread = times[0].spread;
  row.backward_spread = times[1].spread;
  row.update_spread = times[2].spread;
  row.activation_bytes = layer(0).activation_bytes();
  row.peak_bytes = layer(0).total_bytes();
  row.state = state;
  row.forward_tflops = forward_flops(shape, kind) / row.forward_s / 1e12;
  row.backward_tflops = backward_flops(shape, kind) / row.backward_s / 1e12;
  return row;
}

}  // namespace

Measurement measure(const TransformerShape& shape, std::span<const LayerKind> kinds, int runs) {
  Measurement result;
  try {
    for (const LayerKind kind : kinds) result.rows.push_back(measure_layer(shape, kind, runs));
  } catch (const OutOfMemory& error) {
    result.error = error.what();
    result.is_out_of_memory = true;
  } catch (const std::exception& error) {
    result.error = error.what();
  }
  return result;
}

}  // namespace dtfm::kernels
