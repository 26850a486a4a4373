// Prints a table that compares plans by iteration time with other placements for the paper's five cases. All
// plans are simulated.
#include <algorithm>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/base/parallel.hpp"
#include "core/base/rng.hpp"
#include "core/io/readers/calibration_reader.hpp"
#include "core/io/readers/roofline_reader.hpp"
#include "core/io/readers/topology_reader.hpp"
#include "planner/cost/comm_cost/comm_cost.hpp"
#include "planner/search/comm_cost/strategy.hpp"
#include "tests/support/published_job.hpp"
#include "tests/validation/best_plan.hpp"

namespace dtfm {
using namespace cost;
using namespace io;
using namespace search;
namespace {

constexpr int side = 8;  // stages and replicas of the other placements
constexpr int random_placements = 1000;

class OtherPlacements {
 public:
  explicit OtherPlacements(const Problem& problem)
      : problem_(problem),
        score_(Objective::iteration_time, problem.topology),
        job_(std::make_shared<const DecidedJob>(
            problem, problem.job, std::vector{problem.job.parallelism.tensor},
            std::make_shared<const NetworkCost>(problem.topology, problem.constants))) {}

  double by_comm_cost_s(int threads) const {
    const CommCostModel model = comm_cost_model(problem_.topology, *problem_.job.comm_cost, side, side);
    SearchOptions options;
    options.threads = threads;
    return simulated_s(deployed(search_comm_cost(model, default_strategy, options).placement));
  }

  /// Places devices pipeline by pipeline (`across` = false) or stage by stage: in these files, inside or
  /// across regions.
  double in_file_order_s(bool across) const {
    Placement placement(side, side);
    for (int stage = 0; stage < side; ++stage)
      for (int replica = 0; replica < side; ++replica)
        placement.at(stage, replica) = across ? stage * side + replica : replica * side + stage;
    return simulated_s(deployed(placement));
  }

  /// Returns the time of the random placement with the least estimate.
  double random_s(int threads) const {
    const auto candidates = parallel_map(random_placements, threads, [&](int i) {
      Rng rng = Rng::for_task(99, static_cast<std::uint64_t>(i));
      std::vector<int> order(at(side * side));
      std::iota(order.begin(), order.end(), 0);
      rng.shuffle(std::span<int>(order));
      Placement placement(side, side);
      for (int place = 0; place < side * side; ++place)
        placement.at(place / side, place % side) = order[at(place)];
      return deployed(placement);
    });
    return simulated_s(*std::min_element(
        candidates.begin(), candidates.end(),
        [](const PlanCandidate& a, const PlanCandidate& b) { return a.iteration_s < b.iteration_s; }));
  }

 private:
  /// Adds flushes if memory requires them, as the planner does.
  PlanCandidate deployed(const Placement& placement) const {
    Plan plan = plan_from_placement(placement, problem_.job);
    const PlanCandidate candidate = evaluate_plan(job_, plan, score_);
    if (candidate.deficit_bytes <= 0) return candidate;
    if (const int flush = max_fitting_flush(job_->model, plan); flush > 0) plan.execution.flush = flush;
    return evaluate_plan(job_, std::move(plan), score_);
  }

  const Problem& problem_;
  PlanScore score_;
  std::shared_ptr<const DecidedJob> job_;
};

/// Prints a row and returns whether the plan is the fastest.
bool print_row(const std::string& topologies, const std::string& name, int layers, int batch, int threads) {
  Job job = published_job();
  job.training.global_batch = batch;
  std::get<Transformer>(job.model).layers = layers;
  const Problem problem{read_topology(topologies + "/" + name + ".yaml"), job,
                        shipped_calibration("v100").constants, built_in_roofline()};
  const auto [shape, seconds] = best_plan(problem, threads);
  const OtherPlacements others(problem);
  const std::vector<double> other = {others.by_comm_cost_s(threads), others.in_file_order_s(false),
                                     others.in_file_order_s(true), others.random_s(threads)};
  const double least = *std::min_element(other.begin(), other.end());
  fmt::print("| {} | {} | {} | {:.3f} ({} × {}) | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:+.1f} % |\n", name,
             layers, batch, seconds, shape.stages, shape.replicas, other[0], other[1], other[2], other[3],
             100 * (seconds / least - 1));
  return seconds <= least * (1 + 1e-9);
}

}  // namespace
}  // namespace dtfm

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: dtfm_plan_bars TOPOLOGIES THREADS\n");
    return 2;
  }
  fmt::print(
      "| case | layers | batch | plan, s | comm-cost | file order | across regions | best of 1,000 random | "
      "to the best |\n"
      "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  bool all = true;
  for (const char* name : {"datacenter", "spot", "universities", "regional", "worldwide"})
    for (const int layers : {24, 32, 40})
      for (const int batch : {512, 1024, 2048, 4096})
        all = dtfm::print_row(argv[1], name, layers, batch, std::stoi(argv[2])) && all;
  fmt::print("\n{}\n", all ? "Ours is never slower." : "Ours is slower somewhere.");
  return all ? 0 : 1;
}
