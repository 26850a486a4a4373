// Any bytes read as the log of a training run give a positive time or an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/error.hpp"
#include "simulator/io/training_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    DTFM_ASSERT(
        dtfm::io::parse_training_log(std::string_view(reinterpret_cast<const char*>(data), size), "log") > 0);
  } catch (const dtfm::Error&) {
  }
  return 0;
}
