// Runs eleven hours of recorded spot instances under every policy, and checks their ranking and that the
// numbers are consistent.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "planner/api/replanner.hpp"
#include "core/base/index.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "simulator/io/scenario_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/chain_simulation.hpp"
#include "tests/support/published_job.hpp"

using namespace dtfm;
using namespace dtfm::api;
using namespace dtfm::io;
using namespace dtfm::sim;

namespace {

constexpr int stages = 4, replicas = 6, micro_batches = 8;  // of each pipeline
constexpr double hours = 11;

/// 32 instances of topologies/spot.yaml with one GPU each, the maximum in the recording.
const char* const fleet = R"(
version: 1
name: spot-32
devices: [{site: datacenter, count: 32, gpu: V100-16GB, uplink: 1.25 Gbps, downlink: 1.25 Gbps}]
links: [{within: datacenter, latency: 0 ms, bandwidth: 1.25 Gbps}]
)";

/// Returns GPT-3 XL with the batch that 24 of the instances share in six pipelines.
Problem spot_problem() {
  Problem problem;
  problem.topology = parse_topology(fleet, "fleet.yaml", std::filesystem::path(DTFM_SOURCE_DIR) / "configs");
  problem.job = published_job();
  problem.job.training.global_batch = replicas * micro_batches * problem.job.execution.micro_batch;
  problem.job.execution.recomputation = Recomputation::full;
  problem.constants = shipped_calibration("v100").constants;
  problem.roofline = built_in_roofline();
  return problem;
}

}  // namespace

TEST_CASE("every policy handles recorded spot instances consistently") {
  const auto folder = std::filesystem::path(DTFM_SHARED_DATA) / "spot";
  if (!std::filesystem::exists(folder / "p3-trace.csv")) {
    WARN("skipped: no p3-trace.csv in " << folder);
    return;
  }
  const Problem problem = spot_problem();
  const Plan plan = plan_of(problem.job, stages, replicas, micro_batches);
  SimOptions options;
  options.iterations = 1;
  const SimReport calm = simulate(problem, plan, {}, options);
  CHECK(calm.out_of_memory.empty());
  options.replan = make_replanner(problem);
  const Gpu& gpu = problem.topology->gpus[at(problem.topology->devices[0].gpu)];
  const double samples = problem.job.training.global_batch;
  std::string table = fmt::format("{:<26}{:>9}{:>14}{:>8}{:>9}{:>12}\n", "policy", "samples/s",
                                  "lost device-h", "rolled", "USD", "of optimal");
  std::map<std::string, double> rate;
  for (const FailurePolicyTraits& policy : failure_policy_table()) {
    CAPTURE(std::string(policy.name));
    const Scenario scenario = parse_scenario(
        fmt::format("version: 1\nhorizon: {} h\navailability: [{{file: p3-trace.csv, format: events}}]\n"
                    "recovery: {{policy: {}, detection: 10 s, checkpoint: {{period: 10 min, bandwidth: 1 "
                    "Gbps}}}}\n",
                    hours, policy.name),
        "spot.yaml", folder, problem.topology);
    const SimReport report = simulate(problem, plan, scenario, options);
    REQUIRE(report.useful);
    const UsefulWork& useful = *report.useful;
    table += fmt::format("{:<26}{:>9.2f}{:>14.1f}{:>8}{:>9.1f}{:>10.1f} %\n", policy.name,
                         useful.samples_per_s, report.lost_work_s / 3600, report.rolled_back,
                         useful.usd.value_or(0), 100 * useful.share_of_optimal);
    rate[std::string(policy.name)] = useful.samples_per_s;
    CHECK(report.stopped.empty());
    CHECK(report.length_s == hours * 3600);
    // All samples of every completed iteration count, and no others.
    CHECK(useful.samples == samples * static_cast<double>(report.iterations.size()));
    for (std::size_t i = 1; i < report.iterations.size(); ++i)
      REQUIRE(report.iterations[i].start_s >= report.iterations[i - 1].end_s);
    // Every device-second is useful or lost, except for the work that the horizon cut off, which is at most
    // one iteration. A replanned iteration takes as many device-seconds, except for the effect of splitting
    // layers differently.
    const double kept = static_cast<double>(report.iterations.size()) * total_compute_s(calm);
    const double rest = total_compute_s(report) - report.lost_work_s - kept;
    if (!policy.asks_planner) {
      CHECK(rest > -1e-6 * kept);
      CHECK(rest <= total_compute_s(calm) * (1 + 1e-6));
    }
    for (const DeviceReport& device : report.devices)
      CHECK(device.compute_s + device.waiting_network_s + device.waiting_others_s + device.down_s ==
            Approx(report.length_s));
    // All policies cost the same, because the availability of devices does not depend on the policy.
    const double there_s =
        useful.optimal_samples / samples * undisturbed_seconds(problem, plan) * stages * replicas;
    CHECK(useful.usd.value() == Approx(useful.usd_egress + there_s * gpu.price->value() / 3600));
  }
  // Policies that do not wait are faster, as are those that lose less work.
  CHECK(rate["restart-without-pipeline"] > 2 * rate["wait"]);
  CHECK(rate["restart-without-pipeline"] > 1.2 * rate["restart"]);
  CHECK(rate["drop-pipeline"] >= rate["restart-without-pipeline"]);
  CHECK(rate["spare"] > rate["drop-pipeline"]);
  // Bamboo (NSDI 2023) is faster than restarting from a checkpoint; replanning (Varuna, EuroSys 2022;
  // Oobleck, SOSP 2023) is faster than Bamboo. Only replanning uses devices that the plan had no slot for.
  CHECK(rate["redundant"] > rate["restart"]);
  CHECK(rate["replan"] > 1.2 * rate["redundant"]);
  CHECK(rate["replan"] > rate["spare"]);
  fmt::print("an iteration undisturbed: {:.2f} s\n{}", calm.length_s, table);
}
