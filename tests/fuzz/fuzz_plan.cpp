// Any bytes read as a plan file give a plan or an Error; an accepted plan that is written again is accepted
// again.
#include <cstdint>
#include <string>

#include "core/io/text/text_file.hpp"
#include "tests/support/fuzz_plans.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dtfm::Topology topology = dtfm::four_devices();
  static const dtfm::Job job = dtfm::four_layers();
  const std::string text(reinterpret_cast<const char*>(data), size);
  static const dtfm::Job interleaved = dtfm::four_interleaved_layers();
  try {
    const dtfm::io::PlanFile file(dtfm::io::validate_text(text, "plan.json"), "plan.json");
    dtfm::check_reads_back(topology, interleaved, file.plan(topology, interleaved).plan);
  } catch (const dtfm::Error&) {
  }
  try {
    const dtfm::io::PlanFile file(dtfm::io::validate_text(text, "plan.json"), "plan.json");
    const dtfm::Plan plan = file.plan(topology, job).plan;
    dtfm::check_reads_back(topology, job, plan);
    dtfm::balanced_placement(plan, topology, "plan.json");
  } catch (const dtfm::Error&) {
  }
  try {
    dtfm::io::PlanFile(dtfm::io::validate_text(text, "plan.json"), "plan.json").standalone_plan(job);
  } catch (const dtfm::Error&) {
  }
  try {
    dtfm::io::PlanFile(dtfm::io::validate_text(text, "plan.json"), "plan.json").job();
  } catch (const dtfm::Error&) {
  }
  return 0;
}
