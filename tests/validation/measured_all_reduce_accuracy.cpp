// The simulator against all-reduces over emulated wide-area networks (docs/validation.md).
#include <cmath>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/validation/measured_all_reduces.hpp"

using namespace dtfm;

namespace {

struct MeanErrors {
  double with_transport = 0, without = 0;
  int runs = 0;
};

template <class Select>
MeanErrors mean_errors(const Select& is_selected) {
  const std::string file = std::string(DTFM_SOURCE_DIR) + "/tests/network/measured_collectives.csv";
  MeanErrors mean;
  for (const MeasuredAllReduce& run : read_measured_all_reduces(file)) {
    if (!is_selected(run)) continue;
    ++mean.runs;
    mean.with_transport += std::abs(simulated_seconds(run, true) / run.seconds - 1);
    mean.without += std::abs(simulated_seconds(run, false) / run.seconds - 1);
  }
  mean.with_transport /= mean.runs;
  mean.without /= mean.runs;
  return mean;
}

bool is_sharded(const MeasuredAllReduce& run) {
  return run.algorithm == GradientSync::sharded_ps;
}

}  // namespace

TEST_CASE("all-reduces over wide-area networks are simulated within 7 % on average with a transport") {
  const MeanErrors all = mean_errors([](const MeasuredAllReduce&) { return true; });
  CHECK(all.runs == 73);
  CHECK(all.with_transport <= 0.07);
  CHECK(all.without >= 0.37);
  CHECK(mean_errors([](const MeasuredAllReduce& run) { return !is_sharded(run); }).with_transport <= 0.04);
}
