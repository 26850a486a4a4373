// Any bytes read as Megatron's flags and, after a line ====, their ranks give a plan or an Error; an accepted
// plan written as a plan file is accepted again.
#include <algorithm>
#include <cstdint>
#include <string>

#include "core/io/importers/foreign_plan.hpp"
#include "core/io/text/text_file.hpp"
#include "tests/support/fuzz_plans.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dtfm::Topology topology = dtfm::four_devices();
  static const dtfm::Job jobs[] = {dtfm::four_layers(), dtfm::four_interleaved_layers()};
  const std::string line = "\n====\n";
  for (const dtfm::Job& job : jobs) {
    try {
      const std::string text = dtfm::io::validate_text({reinterpret_cast<const char*>(data), size}, "both");
      const std::size_t end = std::min(text.find(line), text.size());
      const std::string ranks = text.substr(std::min(end + line.size(), text.size()));
      const auto source =
          dtfm::io::make_plan_source({"flags", text.substr(0, end)}, dtfm::io::NamedFile{"ranks", ranks});
      dtfm::check_reads_back(topology, job, dtfm::io::read_any_plan(source, topology, job).plan);
    } catch (const dtfm::Error&) {
    }
  }
  return 0;
}
