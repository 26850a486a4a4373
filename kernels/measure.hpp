// Measures how long a transformer's layers take on this device, as input of a profile.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernels/platform/device_state.hpp"
#include "kernels/transformer.hpp"

namespace dtfm::kernels {

struct LayerTimes {
  LayerKind kind = LayerKind::block;
  int micro_batch = 0, tensor_parallel = 0;
  double forward_s = 0, backward_s = 0, update_s = 0;  // medians; backward without recomputation
  double forward_spread = 0, backward_spread = 0, update_spread = 0;  // (90th − 10th percentile) / median
  std::uint64_t activation_bytes = 0;  // held from forward to backward, including the layer's input
  std::uint64_t peak_bytes = 0;        // allocated by one layer, including parameters and their state
  double forward_tflops = 0,
         backward_tflops = 0;  // forward_flops and backward_flops (transformer.hpp) divided by the times
  DeviceState state;           // during the measurement
};

struct Measurement {
  std::vector<LayerTimes> rows;   // in the order of the kinds, up to the first that failed
  std::string error;              // why the next row is missing; empty if all were measured
  bool is_out_of_memory = false;  // whether `error` is out of memory
};

/// Times each kind of layer of the shape over `runs` runs after a warm-up. Layers rotate so that the cache
/// does not hold what they left: as many as three times the cache size requires and memory permits. A missing
/// device, insufficient memory and an invalid shape are reported as an error in the result.
Measurement measure(const TransformerShape& shape, std::span<const LayerKind> kinds, int runs);

}  // namespace dtfm::kernels
