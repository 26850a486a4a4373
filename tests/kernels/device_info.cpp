// Exit code 77 tells ctest that the test was skipped.
#include "kernels/device_info.hpp"

#include <cstdio>
#include <string_view>
#include <vector>

int main() {
  const int count = dtfm::kernels::cuda_device_count();
  if (count == 0) {
    std::puts("skipped: no CUDA GPU, or no driver for it, on this machine");
    return 77;
  }
  const auto rows = static_cast<std::size_t>(count);
  std::vector<char> names(rows * dtfm::kernels::cuda_name_size);
  std::vector<std::uint64_t> memory(rows);
  bool good = dtfm::kernels::cuda_device_info(names, memory) == count;
  for (std::size_t i = 0; i < rows; ++i) {
    const std::string_view name(&names[i * dtfm::kernels::cuda_name_size]);
    std::printf("%s: %.1f GB\n", name.data(), static_cast<double>(memory[i]) / 1e9);
    good = good && !name.empty() && memory[i] > 1'000'000'000;
  }
  // Spans with room for fewer devices are filled up to their length.
  good = good && dtfm::kernels::cuda_device_info({}, memory) == 0;
  return good ? 0 : 1;
}
