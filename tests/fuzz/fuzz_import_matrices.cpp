#include "tests/support/fuzz_survey.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  dtfm::fuzz_survey(dtfm::import_matrices, data, size);
  return 0;
}
