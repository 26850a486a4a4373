// Any bytes read as a measured timeline give activities in order of time or an Error.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/base/error.hpp"
#include "simulator/io/measured_iteration.hpp"
#include "tests/support/small_problems.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dtfm;
  static const Topology topology = flat_topology({4}, link_of(0.01, 1e8), link_of(0.01, 1e8));
  try {
    const sim::Timeline iteration = io::parse_measured_iteration(
        std::string_view(reinterpret_cast<const char*>(data), size), "t.json", topology);
    DTFM_ASSERT(iteration.length_s >= 0);
    for (const sim::TimelineRow& row : iteration.rows) {
      DTFM_ASSERT(row.device >= 0 && row.device < topology.size());
      double before = 0;
      for (const sim::TimelineSpan& it : row.spans) {
        DTFM_ASSERT(it.start >= before && it.end >= it.start);
        before = it.start;
      }
    }
  } catch (const Error&) {
  }
  return 0;
}
