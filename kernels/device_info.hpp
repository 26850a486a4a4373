// Which CUDA GPUs this machine has. A machine without a driver has none, and that is no error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dtfm::kernels {

inline constexpr std::size_t cuda_name_size = 256;  // of one name, its closing NUL counted in

int cuda_device_count();

/// Fills row i of `names` (rows of cuda_name_size characters, NUL-terminated) and `memory[i]` (bytes) for
/// device i, as far as both spans reach. The number of devices filled.
int cuda_device_info(std::span<char> names, std::span<std::uint64_t> memory);

}  // namespace dtfm::kernels
