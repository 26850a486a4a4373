// Plans made for churn complete more iterations than plans made without it: all recorded spot instances on
// the published cases of Yuan et al.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "planner/api/api.hpp"
#include "core/base/infinity.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "simulator/io/scenario_reader.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::api;

namespace {

constexpr double hours = 6;

struct Recording {
  const char *file, *format;
};

constexpr Recording recordings[] = {{"p3-trace.csv", "events"},
                                    {"g4dn-trace.csv", "events"},
                                    {"p3_alive.csv", "count"},
                                    {"g4dn_alive.csv", "count"},
                                    {"gcp_a100x1-east1b_alive.csv", "count"},
                                    {"gcp_v100x1-east1c_alive.csv", "count"}};

constexpr const char* topologies[] = {"datacenter", "spot", "universities", "regional", "worldwide"};

/// Mean seconds per completed iteration of the best plan; infinite if there is none.
double seconds_of(const std::vector<FinalistResult>& results) {
  return results.empty() ? infinity : results.front().seconds;
}

/// The same for a given plan. Infinite also if the simulator rejects it.
double seconds_under(const PlanRequest& request, const search::PlanCandidate& candidate) {
  PlanRequest scored{request.problem};
  scored.problem.job.execution = candidate.plan.execution;
  scored.scenarios = request.scenarios;
  scored.options.common.threads = request.options.common.threads;
  return score(scored, {candidate.plan}).seconds.value_or(infinity);
}

}  // namespace

TEST_CASE("plans for churn complete more iterations under all recorded spot instances") {
  const auto folder = std::filesystem::path(DTFM_SHARED_DATA) / "spot";
  if (!std::filesystem::exists(folder)) {
    WARN("skipped: there is no " << folder);
    return;
  }
  // Every topology is a section, so that one can be run alone: `-c spot`. All together, they have a median.
  static std::vector<double> gains;  // infinite where only the plan for churn completes an iteration
  static std::size_t rows = 0;
  for (const char* name : topologies) {
    SECTION(name) {
      const Problem problem{io::read_topology(fmt::format(DTFM_SOURCE_DIR "/topologies/{}.yaml", name)),
                            io::default_job(), io::shipped_calibration("v100").constants,
                            io::built_in_roofline()};
      PlanRequest request{problem};
      request.options.common.threads = 2;
      request.options.common.evaluations = 20'000;
      request.problem.job.automatic[Setting::optimizer_sharding] =
          false;  // the simulator would reject the plan
      const FoundPlans without = find_plans(request);
      request.scenarios.emplace_back();
      for (const Recording& recording : recordings) {
        request.scenarios.back() = {
            "spot", io::parse_scenario(
                        fmt::format("version: 1\nhorizon: {} h\navailability: [{{file: {}, format: {}}}]\n",
                                    hours, recording.file, recording.format),
                        "spot.yaml", folder, problem.topology)};
        const FoundPlans result = find_plans(request);
        const double own = seconds_of(result.finalist_results),
                     other = seconds_under(request, without.best());
        fmt::print("{:12} {:28} {:8.2f} s, {:8.2f} s of the plan without churn\n", name, recording.file, own,
                   other);
        std::fflush(stdout);
        CAPTURE(name, recording.file);
        CHECK(own <= other);
        if (std::isfinite(own)) gains.push_back(other / own);
        ++rows;
      }
    }
  }
  if (rows < std::size(topologies) * std::size(recordings)) return;
  std::sort(gains.begin(), gains.end());
  REQUIRE(gains.size() > 1);
  fmt::print("{} of {} with a plan that completes an iteration, median gain {:.2f}\n", gains.size(), rows,
             gains[gains.size() / 2]);
  CHECK(gains[gains.size() / 2] >= 1.1);
}
