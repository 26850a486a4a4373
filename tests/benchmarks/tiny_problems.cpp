// How far plans of tiny problems are from the best of all plans, as simulated.
//
//   tiny_problems optimum FIRST LAST  prints the best plans, found by enumeration, of these problems
//   tiny_problems plans FIRST LAST    prints what the planner finds
#include <chrono>
#include <cstdlib>
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

void print_planned(int number) {
  const Problem problem = tiny_problem(number);
  api::PlanRequest request{problem};
  const auto begin = std::chrono::steady_clock::now();
  const api::PlanResult result = api::plan(request);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  fmt::print("{},{:.9g},{},{:.2f},{}\n", number, result.finalist_results.front().seconds,
             result.found.evaluations, took, describe(result.best().plan));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print(stderr, "usage: {} optimum|plans FIRST LAST\n", argv[0]);
    return 2;
  }
  for (int number = std::atoi(argv[2]); number <= std::atoi(argv[3]); ++number) {
    if (std::string(argv[1]) == "optimum")
      print_optimum(number);
    else
      print_planned(number);
    std::fflush(stdout);
  }
}
