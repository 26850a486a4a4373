// Checks that simulated systems are ranked as in the literature: with the worldwide topology, a plan is
// faster than GPipe on random devices, which is faster than Megatron-LM, whose ranks are faster in order than
// at random, and ZeRO-3 comes last (Yuan et al., arXiv 2206.01288, who measured 3.8 to 4.8 times over the
// systems of their time).
#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "planner/api/schemes/scheme.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/published_job.hpp"
#include "tests/validation/best_plan.hpp"

using namespace dtfm;
using namespace dtfm::api;
using namespace dtfm::io;
using namespace dtfm::sim;

namespace {

Problem problem_on(const std::string& topology, int layers, int batch) {
  Problem problem{read_topology(DTFM_SOURCE_DIR "/topologies/" + topology + ".yaml"), published_job(),
                  shipped_calibration("v100").constants, built_in_roofline()};
  std::get<Transformer>(problem.job.model).layers = layers;
  problem.job.training.global_batch = batch;
  return problem;
}

/// Returns the seconds of an iteration in the best layout, or infinity if none fits.
double seconds_of(const Problem& problem, std::string_view name) {
  for (const Scheme& scheme : schemes()) {
    if (scheme.name != name) continue;
    const ChosenLayout chosen = choose_layout(problem, scheme, {0}, 2);
    if (!chosen.layout) return std::numeric_limits<double>::infinity();
    Problem own = problem;
    own.job = chosen.layout->job;
    return undisturbed_seconds(own, chosen.layout->plan);
  }
  return 0;
}

/// Returns the seconds of an iteration in the best layout with random ranks of all devices, as measured in
/// the literature; `megatron-random` would leave out distant ones.
double seconds_of_random_ranks(const Problem& problem) {
  double best_s = std::numeric_limits<double>::infinity();
  for (const Layout& it : megatron_random_layouts(problem, {0})) {
    const Problem own{problem.topology, it.job, problem.constants, problem.roofline};
    const SimReport report = simulate(own, it.plan, {}, {});
    if (report.out_of_memory.empty()) best_s = std::min(best_s, report.iteration_time_s.mean);
  }
  return best_s;
}

struct Row {
  double planned, unplanned, megatron, megatron_random, zero3;
};

Row row_of(const Problem& problem) {
  Problem sized = problem;  // zero3 communicates per micro-batch, so that it needs larger ones
  sized.job.automatic[Setting::micro_batch] = true;
  constexpr long long evaluations = 50'000;  // a third of what convergence takes
  return {best_plan(problem, 2, evaluations).seconds, seconds_of(problem, "gpipe-random"),
          seconds_of(problem, "megatron"), seconds_of_random_ranks(problem), seconds_of(sized, "zero3")};
}

void print(const Problem& problem, const Row& row) {
  fmt::print("{:10} {} layers, batch {:4}: {:.2f} s, × {:.2f} {:.2f} {:.2f} {:.2f}\n", problem.topology->name,
             layer_count(problem.job.model), problem.job.training.global_batch, row.planned,
             row.unplanned / row.planned, row.megatron / row.planned, row.megatron_random / row.planned,
             row.zero3 / row.planned);
}

}  // namespace

TEST_CASE("on the worldwide topology systems are ranked as in the literature") {
  fmt::print("planned, then × unplanned, Megatron, Megatron with random ranks, ZeRO-3\n");
  for (const int layers : {24, 40})
    for (const int batch : {1024, 4096}) {
      CAPTURE(layers, batch);
      const Problem problem = problem_on("worldwide", layers, batch);
      const Row row = row_of(problem);
      print(problem, row);
      CHECK(row.planned < row.unplanned);
      CHECK(row.unplanned < row.megatron);
      CHECK(row.megatron < row.megatron_random);
      CHECK(row.megatron_random < row.zero3);
      CHECK(row.megatron_random / row.planned > 3);
      CHECK(row.megatron_random / row.planned < 6);
      CHECK(row.zero3 / row.planned > 10);
    }
}

// Yuan et al. measured a speed-up over Megatron-LM that grows with the batch. So it does for a layout of many
// stages, whose messages grow with the batch. With few stages, the all-reduce dominates, which takes equally
// long for any batch.
TEST_CASE("the speed-up over Megatron-LM grows with the batch if its pipelines are deep") {
  std::map<int, double> growth;  // from batch 1,024 to 4,096, by depth
  for (const int batch : {1024, 4096}) {
    const Problem problem = problem_on("worldwide", 24, batch);
    const double planned = best_plan(problem, 2, 50'000).seconds;
    for (const Layout& it : megatron_random_layouts(problem, {0})) {
      const int stages = depth(it.plan), devices = stages * static_cast<int>(it.plan.pipelines.size());
      if (devices != problem.topology->size() || (stages != 2 && stages != 4 && stages != 8)) continue;
      const double speedup =
          undisturbed_seconds({problem.topology, it.job, problem.constants, problem.roofline}, it.plan) /
          planned;
      fmt::print("{} stages, batch {}: {:.2f} ×\n", stages, batch, speedup);
      growth[stages] = batch == 1024 ? speedup : speedup / growth[stages];
    }
  }
  REQUIRE(growth.size() == 3);
  CHECK(growth[2] < 0.8);
  CHECK(growth[8] > 1.1);
  CHECK(growth[2] < growth[4]);
  CHECK(growth[4] < growth[8]);
}

TEST_CASE("an open micro-batch is no worse than given ones") {
  for (const char* topology : {"universities", "worldwide"}) {
    Problem problem = problem_on(topology, 24, 1024);
    problem.job.execution.schedule = Schedule::one_f_one_b_blocking;
    problem.job.execution.gradient_sync = GradientSync::ring;
    double given_s = std::numeric_limits<double>::infinity();
    for (const int micro_batch : {1, 2}) {
      problem.job.execution.micro_batch = micro_batch;
      given_s = std::min(given_s, best_plan(problem, 2).seconds);
    }
    problem.job.automatic[Setting::micro_batch] = true;
    const double open_s = best_plan(problem, 2).seconds;
    fmt::print("{:12} micro-batch open: {:.2f} s, given: {:.2f} s\n", topology, open_s, given_s);
    CHECK(open_s <= given_s);
  }
}

TEST_CASE("in a data centre all systems are within a factor of 3") {
  Problem problem = problem_on("datacenter", 24, 1024);
  problem.job.automatic[Setting::gradient_sync] = true;  // Megatron's is a ring
  const Row row = row_of(problem);
  print(problem, row);
  for (const double seconds : {row.unplanned, row.megatron, row.megatron_random, row.zero3}) {
    CHECK(row.planned < seconds);
    CHECK(seconds < 3 * row.planned);
  }
}
