// How far plans of tiny problems are from the best of all plans, as simulated.
//
//   benchmark_tiny_problems optimum FIRST LAST  prints the best plans of these problems, by enumeration
//   benchmark_tiny_problems plans FIRST LAST    prints what the planner finds
//   benchmark_tiny_problems medium FIRST LAST [EVALUATIONS]
//                                               the same for 12 to 16 devices and 8 to 16 layers
//
// Columns: problem, simulated seconds, then number of plans and of simulations (optimum), or evaluations and
// seconds of planning; the plan as micro-batches and stages of each pipeline.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "planner/api/api.hpp"
#include "tests/support/tiny_problems.hpp"

using namespace dtfm;

namespace {

std::string describe(const Plan& plan) {
  std::string text;
  for (const Pipeline& pipeline : plan.pipelines) {
    text += fmt::format("{}{}:", text.empty() ? "" : " ", pipeline.micro_batches);
    for (const Stage& stage : pipeline.stages)
      text += fmt::format(" d{}[{},{})", stage.devices.front(), stage.layers.first, stage.layers.second);
    text += ";";
  }
  return text;
}

void print_optimum(int number) {
  const Problem problem = tiny_problem(number);
  const TinyOptimum best = tiny_optimum(problem);
  fmt::print("{},{:.9g},{},{},{}\n", number, best.seconds, best.plans, best.simulated, describe(best.plan));
}

void print_planned(int number, const Problem& problem, std::optional<long long> evaluations) {
  api::PlanRequest request{problem};
  request.options.common.evaluations = evaluations;
  const auto begin = std::chrono::steady_clock::now();
  const api::FoundPlans result = api::find_plans(request);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{},{:.9g},{},{:.2f},{}\n", number, result.finalist_results.front().seconds,
             result.found.evaluations, took, describe(result.best().plan));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 3 ? argv[1] : "";
  if ((mode != "optimum" && mode != "plans" && mode != "medium") || argc > (mode == "medium" ? 5 : 4)) {
    fmt::print(stderr, "usage: {} optimum|plans|medium FIRST LAST [EVALUATIONS, for medium]\n", argv[0]);
    return 2;
  }
  for (int number = std::atoi(argv[2]); number <= std::atoi(argv[3]); ++number) {
    if (mode == "optimum")
      print_optimum(number);
    else if (mode == "plans")
      print_planned(number, tiny_problem(number), std::nullopt);
    else
      print_planned(number, tiny_problem(number, medium_problems),
                    argc > 4 ? std::optional(std::atoll(argv[4])) : std::nullopt);
    std::fflush(stdout);
  }
}
