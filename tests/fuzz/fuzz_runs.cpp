// Any bytes read as a table of measured iterations give runs that can be simulated or an Error.
#include <cstdint>
#include <memory>
#include <string>

#include "core/base/error.hpp"
#include "simulator/io/runs_reader.hpp"
#include "tests/support/small_problems.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace dtfm;
  static const auto topology =
      std::make_shared<const Topology>(flat_topology({4}, link_of(0.01, 1e8), link_of(0.01, 1e8)));
  static const std::optional<Job> job = chain_job(4, 1e6, 1e6);
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    for (const MeasuredRun& run :
         dtfm::io::parse_runs(text, "runs.csv", "no such folder", {topology, job, {}})) {
      DTFM_ASSERT(run.work && run.seconds > 0 && run.line > 1);
      DTFM_ASSERT(!run.work->plan.pipelines.empty());
    }
  } catch (const Error&) {
  }
  return 0;
}
