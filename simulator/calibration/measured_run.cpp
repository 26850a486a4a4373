#include "simulator/calibration/measured_run.hpp"

#include <algorithm>
#include <map>

#include "core/base/index.hpp"
#include "core/base/parallel.hpp"
#include "simulator/report/stage_memory.hpp"
#include "simulator/simulate.hpp"

namespace dtfm::sim {

std::vector<double> simulate_seconds(std::span<const MeasuredRun> runs, const Calibration& constants,
                                     int threads) {
  std::map<const Workload*, std::size_t> first_of;  // lookups only: never iterated, for determinism
  std::vector<const Workload*> distinct;
  std::vector<std::size_t> workload_of_run;  // index into `distinct` for each run
  for (const MeasuredRun& run : runs) {
    const auto [first, is_new] = first_of.try_emplace(run.work.get(), distinct.size());
    if (is_new) distinct.push_back(run.work.get());
    workload_of_run.push_back(first->second);
  }
  const std::vector<double> seconds = parallel_map(static_cast<int>(distinct.size()), threads, [&](int i) {
    const Workload& work = *distinct[at(i)];
    return undisturbed_seconds(work.problem_with(constants), work.plan);
  });
  std::vector<double> result;
  for (const std::size_t i : workload_of_run) result.push_back(seconds[i]);
  return result;
}

std::vector<double> predicted_peak_memory(std::span<const MeasuredRun> runs, const Calibration& constants) {
  std::map<const Workload*, double> known;  // lookups only
  std::vector<double> result;
  for (const MeasuredRun& run : runs) {
    const auto [peak, is_new] = known.try_emplace(run.work.get());
    if (is_new) {
      const std::vector<double> needed = required_memory(run.work->problem_with(constants), run.work->plan);
      peak->second = *std::max_element(needed.begin(), needed.end());
    }
    result.push_back(peak->second);
  }
  return result;
}

}  // namespace dtfm::sim
