// How long a transformer's layers take on this device: what a profile is made of.
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
  std::uint64_t activation_bytes = 0;  // held from forward to backward, the layer's input with it
  std::uint64_t peak_bytes = 0;        // all that one layer allocates, its parameters and their state with it
  double forward_tflops = 0,
         backward_tflops = 0;  // forward_flops and backward_flops (transformer.hpp) over the times
  DeviceState state;           // while it was timed
};

struct Measurement {
  std::vector<LayerTimes> rows;   // in the order of the kinds, as far as it went
  std::string error;              // empty: all went well; else why the next row is missing
  bool is_out_of_memory = false;  // that was the error
};

/// Times each kind of layer of the shape over `runs` runs after warming up, with layers in rotation so that
/// the cache does not hold what they left: as many as three times the cache asks for and memory has room for.
/// No device, too little memory or a shape that cannot be is an error in the result.
Measurement measure(const TransformerShape& shape, std::span<const LayerKind> kinds, int runs);

}  // namespace dtfm::kernels
