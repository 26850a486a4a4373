// Lists the CUDA GPUs of this machine. A machine without a driver has none, which is not an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtfm::kernels {

inline constexpr std::size_t cuda_name_size = 256;  // of one name, including the terminating NUL

int cuda_device_count();

/// Fills row i of `names` (rows of cuda_name_size characters, NUL-terminated) and `memory[i]` (bytes) for
/// device i, up to the length of the shorter span. Returns the number of devices filled.
int cuda_device_info(std::span<char> names, std::span<std::uint64_t> memory);

}  // namespace dtfm::kernels
