// Any bytes read as a topology give an Error or a topology with a link for every pair.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "core/io/readers/topology_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const dtfm::Topology topology = dtfm::io::parse_topology(
        std::string(reinterpret_cast<const char*>(data), size), "t.yaml", "/nonexistent");
    constexpr int checked = 64;
    for (int from = 0; from < topology.size() && from < checked; ++from)
      for (int to = 0; to < topology.size() && to < checked; ++to)
        if (from != to) DTFM_ASSERT(topology.link(from, to).bandwidth.value() > 0);
  } catch (const dtfm::Error&) {
  }
  return 0;
}
