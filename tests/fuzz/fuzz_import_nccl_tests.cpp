#include "tests/support/fuzz_network_measurements.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dtfm::fuzz_network_measurements(dtfm::io::import_nccl_tests, data, size);
  return 0;
}
