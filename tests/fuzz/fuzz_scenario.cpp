// Any bytes read as a scenario of four devices give a scenario or an Error; in a scenario, events are in
// order, only available devices leave, and only unavailable ones join.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "simulator/io/scenario_reader.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dtfm::Topology topology = dtfm::io::parse_topology(
      "version: 1\ndevices: [{site: a, count: 2}, {site: b, hosts: 1, gpus_per_host: 2}]\n"
      "links: [{between: [\"*\", \"*\"], latency: 1 ms, bandwidth: 1 Gbps}]\n",
      "t.yaml", "/nonexistent");
  try {
    const dtfm::sim::Scenario scenario = dtfm::io::parse_scenario(
        std::string(reinterpret_cast<const char*>(data), size), "s.yaml", "/nonexistent", topology);
    std::vector<bool> there(dtfm::at(topology.size()), true);
    double date = 0;
    for (const dtfm::sim::DeviceEvent& event : scenario.events) {
      DTFM_ASSERT(event.date >= date);
      date = event.date;
      if (event.kind == dtfm::sim::DeviceEvent::Kind::speed) continue;
      const bool joins = event.kind == dtfm::sim::DeviceEvent::Kind::join;
      DTFM_ASSERT(there[dtfm::at(event.device)] != joins);
      there[dtfm::at(event.device)] = joins;
    }
  } catch (const dtfm::Error&) {
  }
  return 0;
}
