// Access to the GPU of this machine. It is implemented by measure_layers_gpu.cpp if nvcc is available at
// build time, else by measure_layers_none.cpp.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/work.hpp"
#include "core/plan/job.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm::cli {

struct MeasureRequest {
  const Job& job;  // only its model and precision are used
  std::optional<std::string>
      gpu;  // its name in profiles; if not given: the entry of `catalogue` with the driver's name
  std::span<const Gpu> catalogue;
  std::vector<int> micro_batches, tensors;
  std::function<void(const Progress&)> on_progress;
};

/// Measures every kind of layer of the job at every micro-batch size and tensor degree. Throws Error if there
/// is no GPU, no kernels for the layers of the model, or not enough GPU memory.
LayerProfile measure_layers(const MeasureRequest& request);

/// The entry of `catalogue` that the driver calls `device_name`, with memory within 10 % of `memory`. Throws
/// Error if there is none, naming a similar entry if there is one, such as H200 for an H200 NVL.
const Gpu& find_in_catalogue(std::span<const Gpu> catalogue, const std::string& device_name, Bytes memory);

/// Alternatives without a GPU, for error messages.
inline constexpr const char* no_gpu_advice =
    "estimate its times (--estimate GPU) or import them (--import FORMAT FILE)";

}  // namespace dtfm::cli
