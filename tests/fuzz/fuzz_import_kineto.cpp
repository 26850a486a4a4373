#include "tests/support/fuzz_import.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dtfm::fuzz_import(dtfm::io::import_kineto, "file.json", data, size);
  return 0;
}
