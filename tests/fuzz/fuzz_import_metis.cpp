#include "tests/support/fuzz_import.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dtfm::fuzz_import(dtfm::io::import_metis, "DeviceType.A_tp1_bs1.json", data, size);
  return 0;
}
