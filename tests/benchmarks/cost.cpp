// Benchmarks the cost of placements of 64 devices in eight cities, which a search evaluates repeatedly.
#include <limits>

#include <benchmark/benchmark.h>

#include "planner/cost/comm_cost/comm_cost_state.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "planner/search/comm_cost/random_placement.hpp"

namespace dtfm {
using namespace cost;
using namespace io;
using namespace search;
namespace {

CommCostModel worldwide() {
  const Topology topology = read_topology(DTFM_SOURCE_DIR "/topologies/worldwide.yaml");
  return comm_cost_model(topology, comm_volumes(default_job(), 8, 8), 8, 8);
}

/// Evaluates random swaps of two devices, as annealing does, without performing them.
void evaluate_device_swap(benchmark::State& state) {
  const CommCostModel model = worldwide();
  Rng rng = Rng::for_task(0, 0);
  CommCostState placement(model, best_deployment(model, random_placement(model, rng)), 0.2);
  for (auto _ : state) {
    const int a = static_cast<int>(rng.below(64));
    const int b = static_cast<int>(rng.below(64));
    if (placement.group_of(a) == placement.group_of(b)) continue;
    benchmark::DoNotOptimize(placement.evaluate_swap(a, b, std::numeric_limits<double>::infinity()));
  }
}
BENCHMARK(evaluate_device_swap);

/// Evaluates order, matchings and cost of a partition from scratch, as the published search does for every
/// candidate.
void evaluate_partition(benchmark::State& state) {
  const CommCostModel model = worldwide();
  Rng rng = Rng::for_task(0, 0);
  const Placement placement = random_placement(model, rng);
  for (auto _ : state) benchmark::DoNotOptimize(comm_cost(model, best_deployment(model, placement)));
}
BENCHMARK(evaluate_partition);

}  // namespace
}  // namespace dtfm
