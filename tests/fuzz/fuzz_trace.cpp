// Any bytes read as a trace, a list of nodes or counts of nodes give values in order of time or an Error.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "simulator/io/availability_reader.hpp"
#include "simulator/io/trace_reader.hpp"

namespace {

void read_trace_of(const std::string& text) {
  dtfm::io::TraceFormat format;
  format.relative = true;
  format.repeat = true;
  const dtfm::sim::Trace trace = dtfm::io::parse_trace(text, "t.csv", format);
  DTFM_ASSERT(!trace.steps.empty());
  for (std::size_t i = 1; i < trace.steps.size(); ++i)
    DTFM_ASSERT(trace.steps[i - 1].date < trace.steps[i].date);
  DTFM_ASSERT(trace.period == 0 || trace.steps.back().date - trace.steps.front().date < trace.period);
}

void read_availability_of(const std::string& text, bool has_counts) {
  const std::vector<int> devices{0, 1, 2};
  std::vector<bool> there(devices.size(), true);
  double date = 0;
  for (const dtfm::sim::DeviceEvent& event :
       dtfm::io::parse_availability(text, "t.csv", {has_counts, dtfm::io::time_unit("s"), devices})) {
    DTFM_ASSERT(event.date >= date);
    date = event.date;
    const bool joins = event.kind == dtfm::sim::DeviceEvent::Kind::join;
    DTFM_ASSERT(there[static_cast<std::size_t>(event.device)] != joins);
    there[static_cast<std::size_t>(event.device)] = joins;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const int reader : {0, 1, 2}) {
    try {
      if (reader == 0)
        read_trace_of(text);
      else
        read_availability_of(text, reader == 1);
    } catch (const dtfm::Error&) {
    }
  }
  return 0;
}
