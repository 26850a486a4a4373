// Limits the error of estimated iteration times against simulated ones on the shipped topologies.
#include <cmath>
#include <filesystem>
#include <string>

#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/published_job.hpp"
#include "tests/validation/estimates.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

constexpr int plans = 500;

/// Returns the default job with fewer micro-batches, to shorten the simulation.
Problem shipped_problem(const std::string& topology) {
  const auto file = std::filesystem::path(DTFM_SOURCE_DIR) / "topologies" / (topology + ".yaml");
  Problem problem{read_topology(file), published_job(), shipped_calibration("v100").constants,
                  built_in_roofline()};
  problem.job.training.global_batch = 96;
  return problem;
}

EstimateError error_on(const std::string& topology) {
  return estimate_error(shipped_problem(topology), plans, 0, 1);
}

}  // namespace

TEST_CASE("rank correlation is computed as defined by Kendall") {
  CHECK(kendall_tau({{1, 10}, {2, 20}, {3, 30}}) == Approx(1));
  CHECK(kendall_tau({{1, 30}, {2, 20}, {3, 10}}) == Approx(-1));
  // Of three pairs, two are in the same order and one in opposite order.
  CHECK(kendall_tau({{1, 10}, {2, 30}, {3, 20}}) == Approx(1.0 / 3));
  // A tie on one side: 2 of √(2 · 3).
  CHECK(kendall_tau({{1, 10}, {1, 20}, {3, 30}}) == Approx(2 / std::sqrt(6)));
}

TEST_CASE("estimates are within 1 % of the simulator if links are not shared") {
  for (const char* topology : {"aws-ten-regions", "four-continents", "onprem-cloud", "three-clouds"}) {
    const EstimateError error = error_on(topology);
    CAPTURE(topology, error.mean, error.worst, error.rank_correlation);
    CHECK(std::abs(error.worst) <= 0.01);
    CHECK(error.rank_correlation >= 0.99);
  }
}

TEST_CASE("estimates are within 10 % of the simulator if links are shared and rank plans in the same order") {
  for (const char* topology :
       {"datacenter", "multicloud-20", "regional", "spot", "spot-10g", "universities", "worldwide"}) {
    const EstimateError error = error_on(topology);
    CAPTURE(topology, error.mean, error.worst, error.rank_correlation);
    CHECK(std::abs(error.worst) <= 0.1);
    CHECK(error.rank_correlation >= 0.9);
  }
}
