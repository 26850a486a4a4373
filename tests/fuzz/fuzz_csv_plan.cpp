// Any bytes read as a table give a plan or an Error; an accepted plan written as a plan file is accepted
// again.
#include <cstdint>
#include <string>

#include "core/io/readers/csv_plan.hpp"
#include "core/io/text/text_file.hpp"
#include "tests/support/fuzz_plans.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dtfm::Topology topology = dtfm::four_devices();
  static const dtfm::Job job = dtfm::four_layers();
  const std::string file = "plan.csv";
  try {
    const std::string text = dtfm::io::validate_text({reinterpret_cast<const char*>(data), size}, file);
    dtfm::io::InputErrors errors;
    dtfm::io::DeviceResolver resolver(topology, errors);
    const dtfm::Plan plan = dtfm::io::read_csv_plan(text, file, job, resolver, errors);
    errors.throw_if_any();
    dtfm::check_reads_back(topology, job, plan);
  } catch (const dtfm::Error&) {
  }
  return 0;
}
