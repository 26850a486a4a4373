// Prints a table for GPT-3 6.7B, which no single GPU can hold, on two kinds of GPU, one fast for three slow,
// in hosts of eight. It compares plans by iteration time with the best plan that has equal layers in all
// stages and equal micro-batches in all pipelines. All plans are simulated.
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/base/parallel.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "tests/validation/best_plan.hpp"

namespace dtfm {
using namespace cost;
using namespace io;
using namespace search;
namespace {

/// Returns a topology in which a quarter of the hosts have A100s, and the others the same at half the speed.
Topology mixed(int devices) {
  const int hosts = devices / 8;
  return parse_topology(fmt::format(R"(version: 1
name: mixed
devices:
  - {{site: fast, hosts: {}, gpus_per_host: 8, gpu: A100-40GB}}
  - {{site: slow, hosts: {}, gpus_per_host: 8, gpu: A100-40GB, speed: 0.5}}
links:
  - {{within: host, latency: 5 us, bandwidth: 300 Gbps}}
  - {{between: ["*", "*"], latency: 100 us, bandwidth: 25 Gbps}}
  - {{within: "*", latency: 100 us, bandwidth: 25 Gbps}}
)",
                                    std::max(1, hosts / 4), hosts - std::max(1, hosts / 4)),
                        "mixed.yaml", "");
}

/// Returns the equal split with the least estimate over the first devices of a few orders: pipeline by
/// pipeline or stage by stage; in file order (fast devices first), or alternating one fast and three slow
/// devices.
PlanCandidate best_equal(const Problem& problem, int threads) {
  const int devices = problem.topology->size(), layers = layer_count(problem.job.model);
  const int batches = micro_batch_count(problem.job);
  std::vector<int> in_file(at(devices)), in_turn;
  std::iota(in_file.begin(), in_file.end(), 0);
  for (int i = 0; i < devices; ++i) in_turn.push_back(i % 4 == 0 ? i / 4 : devices / 4 + i - i / 4 - 1);
  std::vector<std::array<int, 4>> tries;  // stages, replicas, order, stage by stage
  for (int stages = 1; stages <= std::min(devices, layers); ++stages)
    for (int replicas = 1; stages * replicas <= devices; ++replicas)
      for (int way = 0; layers % stages == 0 && batches % replicas == 0 && way < 4; ++way)
        tries.push_back({stages, replicas, way / 2, way % 2});
  const auto job = std::make_shared<const DecidedJob>(
      problem, problem.job, std::vector{1},
      std::make_shared<const NetworkCost>(problem.topology, problem.constants));
  const PlanScore score(Objective::iteration_time, problem.topology);
  const auto candidates = parallel_map(static_cast<int>(tries.size()), threads, [&](int i) {
    const auto [stages, replicas, order, by_stage] = tries[at(i)];
    Placement placement(stages, replicas);
    for (int stage = 0; stage < stages; ++stage)
      for (int replica = 0; replica < replicas; ++replica)
        placement.at(stage, replica) =
            (order == 0 ? in_file
                        : in_turn)[at(by_stage == 1 ? stage * replicas + replica : replica * stages + stage)];
    const PlanCandidate candidate = evaluate_plan(job, plan_from_placement(placement, problem.job), score);
    if (candidate.deficit_bytes <= 0) return candidate;
    const int flush = max_fitting_flush(job->model, candidate.plan);
    if (flush < 1) return candidate;
    Plan flushed = candidate.plan;
    flushed.execution.flush = flush;
    return evaluate_plan(job, std::move(flushed), score);
  });
  return *std::min_element(candidates.begin(), candidates.end(), is_better);
}

void print_row(int devices, int threads) {
  const Job job = parse_job(fmt::format(R"(version: 1
name: gpt3-6.7b
model: {{preset: gpt3-6.7b}}
training: {{global_batch: {}, micro_batch: 1, precision: fp16, recompute: full}}
parallelism: {{schedule: 1f1b}}
)",
                                        16 * devices),
                            "gpt3-6.7b.yaml");
  const Problem problem{mixed(devices), job, shipped_calibration("v100").constants, built_in_roofline()};
  const auto [shape, seconds] = best_plan(problem, threads);
  const PlanCandidate equal = best_equal(problem, threads);
  const double equal_s = simulated_s(equal);
  // For compute alone, the equal split runs at the pace of the slow devices, and the plan at the sum of all
  // speeds.
  const int fast = std::max(1, devices / 32) * 8;
  const double theory = 1 - 0.5 * devices / (fast + 0.5 * (devices - fast));
  fmt::print("| {} | {:.3f} ({} × {}) | {:.3f} ({} × {}) | {:.1f} % | {:.1f} % |\n", devices, seconds,
             shape.stages, shape.replicas, equal_s, equal.shape().stages, equal.shape().replicas,
             100 * (1 - seconds / equal_s), 100 * theory);
}

}  // namespace
}  // namespace dtfm

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: dtfm_kind_bars THREADS\n");
    return 2;
  }
  fmt::print(
      "| devices | plan, s | best equal split, s | less | compute alone, at most "
      "|\n|--:|--:|--:|--:|--:|\n");
  for (const int devices : {32, 64, 128, 256, 512}) dtfm::print_row(devices, std::stoi(argv[1]));
}
