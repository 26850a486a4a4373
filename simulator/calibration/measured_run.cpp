#include "simulator/calibration/measured_run.hpp"

#include <map>

#include "planner/core/index.hpp"
#include "planner/core/parallel.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::sim {

std::vector<double> simulated_seconds(std::span<const MeasuredRun> runs, const Calibration& constants,
                                      int threads) {
  std::map<const Workload*, std::size_t> first_of;  // searched, never gone through
  std::vector<const Workload*> different;
  std::vector<std::size_t> which;  // of `different`, of each run
  for (const MeasuredRun& run : runs) {
    const auto [first, is_new] = first_of.try_emplace(run.work.get(), different.size());
    if (is_new) different.push_back(run.work.get());
    which.push_back(first->second);
  }
  const std::vector<double> seconds = parallel_map(static_cast<int>(different.size()), threads, [&](int i) {
    const Workload& work = *different[at(i)];
    return undisturbed_seconds(work.problem_with(constants), work.plan);
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

}  // namespace dtfm::sim
