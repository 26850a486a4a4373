#include "kernels/device_info.hpp"

#include <algorithm>

#include <cuda_runtime_api.h>

namespace dtfm::kernels {

int cuda_device_count() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

int cuda_device_info(std::span<char> names, std::span<std::uint64_t> memory) {
  const auto rows = std::min(names.size() / cuda_name_size, memory.size());
  const int count = std::min(cuda_device_count(), static_cast<int>(rows));
  for (int device = 0; device < count; ++device) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, device) != cudaSuccess) return device;
    static_assert(sizeof properties.name <= cuda_name_size);
    const auto row = static_cast<std::size_t>(device);
    std::copy(std::begin(properties.name), std::end(properties.name), names.begin() + row * cuda_name_size);
    memory[row] = properties.totalGlobalMem;
  }
  return count;
}

}  // namespace dtfm::kernels
