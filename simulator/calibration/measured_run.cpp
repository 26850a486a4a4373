#include "simulator/calibration/measured_run.hpp"

#include <map>
#include <utility>

#include "planner/core/index.hpp"
#include "planner/core/parallel.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/lowering/iteration_graph.hpp"

namespace dtfm {

std::vector<double> simulated_seconds(std::span<const MeasuredRun> runs, const Calibration& constants,
                                      int threads) {
  std::map<const Problem*, Problem> problems;  // with the constants; searched, never gone through
  std::map<std::pair<const Problem*, const Plan*>, std::size_t> first_of;
  std::vector<const MeasuredRun*> different;
  std::vector<std::size_t> which;  // of `different`, of each run
  for (const MeasuredRun& run : runs) {
    const auto [problem, is_new] = problems.try_emplace(run.problem.get(), *run.problem);
    if (is_new) problem->second.constants = constants;
    const auto [first, is_first] =
        first_of.try_emplace({run.problem.get(), run.plan.get()}, different.size());
    if (is_first) different.push_back(&run);
    which.push_back(first->second);
  }
  const std::vector<double> seconds = parallel_map(static_cast<int>(different.size()), threads, [&](int i) {
    const MeasuredRun& run = *different[at(i)];
    return replay(iteration_graph(problems.at(run.problem.get()), *run.plan).graph).makespan;
  });
  std::vector<double> result;
  for (const std::size_t i : which) result.push_back(seconds[i]);
  return result;
}

std::vector<double> relative_errors(std::span<const MeasuredRun> runs, const Calibration& constants,
                                    int threads) {
  std::vector<double> errors = simulated_seconds(runs, constants, threads);
  for (std::size_t i = 0; i < errors.size(); ++i) errors[i] = errors[i] / runs[i].seconds - 1;
  return errors;
}

}  // namespace dtfm
