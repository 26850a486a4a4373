// The one door to the GPU of this machine. Two files implement it: measure_layers_gpu.cpp where there is
// nvcc, else measure_layers_none.cpp.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/topology.hpp"

namespace dtfm::cli {

struct MeasureRequest {
  const Job& job;  // its model and precision
  std::optional<std::string>
      gpu;  // its name in profiles; nothing: the one of `catalogue` that the driver names
  std::span<const Gpu> catalogue;
  std::vector<int> micro_batches, tensors;
  std::function<void(double share, const std::string& text)> on_progress;
};

/// Times every kind of the job's layers at every micro-batch and tensor degree. Throws Error where there is
/// no GPU, for a model whose layers there are no kernels for, and for what does not fit in the GPU's memory.
LayerProfile measure_layers(const MeasureRequest& request);

/// The entry of the catalogue whose driver's name this is and whose memory is within 10 % of this. Throws
/// Error where there is none, naming the one that is alike but another, such as H100 for an H100 PCIe.
const Gpu& find_in_catalogue(std::span<const Gpu> catalogue, const std::string& device_name, Bytes memory);

/// For errors: what to do without a GPU.
inline constexpr const char* no_gpu_advice =
    "estimate its times (--estimate GPU) or import them (--import FORMAT FILE)";

}  // namespace dtfm::cli
