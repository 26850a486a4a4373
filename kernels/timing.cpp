#include "kernels/timing.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>

#include "kernels/platform/device.hpp"

namespace dtfm::kernels {
namespace {

/// Events around the steps of a run: one more than there are steps.
using Marks = std::deque<Event>;

void run_once(int run, const std::vector<std::function<void(int)>>& steps,
              const std::function<void(int)>& after, Marks& marks) {
  marks.emplace_back();
  marks.back().record();
  for (const auto& step : steps) {
    step(run);
    marks.emplace_back();
    marks.back().record();
  }
  if (after) after(run);
}

struct WarmUp {
  int runs;
  double seconds_of_run;
};

/// Runs for at least `min_seconds`. The first run is not counted, because it loads code.
WarmUp warm_up(const std::vector<std::function<void(int)>>& steps, const std::function<void(int)>& after,
               double min_seconds) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start;
  double passed = 0;
  int run = 0;
  do {
    Marks marks;
    run_once(run, steps, after, marks);
    device_synchronize();
    if (run++ == 0) start = Clock::now();
    passed = std::chrono::duration<double>(Clock::now() - start).count();
  } while (run < 2 || passed < min_seconds);
  return {run, passed / (run - 1)};
}

}  // namespace

Times summary(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const auto percentile = [&](double p) {  // interpolates between neighbouring ranks
    const double place = p * static_cast<double>(seconds.size() - 1);
    const auto below = static_cast<std::size_t>(place);
    const std::size_t above = std::min(below + 1, seconds.size() - 1);
    return seconds[below] + (place - static_cast<double>(below)) * (seconds[above] - seconds[below]);
  };
  const double median = percentile(0.5);
  return {median, median > 0 ? (percentile(0.9) - percentile(0.1)) / median : 0};
}

std::vector<Times> time_steps(const Effort& effort, const std::vector<std::function<void(int)>>& steps,
                              const std::function<void(int)>& after, const std::function<void()>& meanwhile) {
  if (effort.min_runs < 1) throw DeviceError("timing: runs must be at least 1");
  const auto [first, seconds_of_run] = warm_up(steps, after, effort.min_warm_up_seconds);
  constexpr double max_runs = 10'000;
  const double wanted = effort.min_seconds > 0 ? effort.min_seconds / seconds_of_run : 0;
  const int runs = std::max(effort.min_runs, static_cast<int>(std::ceil(std::min(max_runs, wanted))));
  // Nothing synchronizes between runs, so that the host stays ahead of the device, as in a trainer.
  std::deque<Marks> marks(static_cast<std::size_t>(runs));
  for (int run = 0; run < runs; ++run)
    run_once(first + run, steps, after, marks[static_cast<std::size_t>(run)]);
  if (meanwhile) meanwhile();
  device_synchronize();
  std::vector<Times> times;
  for (std::size_t step = 0; step < steps.size(); ++step) {
    std::vector<double> seconds;
    for (Marks& run : marks) seconds.push_back(run[step + 1].seconds_since(run[step]));
    times.push_back(summary(std::move(seconds)));
  }
  return times;
}

int rotation(double bytes) {
  const double wanted =
      std::ceil(3 * static_cast<double>(device_limits().cache_bytes) / std::max(bytes, 1.0));
  return static_cast<int>(std::clamp(wanted, 2.0, 64.0));
}

bool has_room(std::size_t bytes) {
  constexpr std::size_t reserve = std::size_t{512}
                                  << 20;  // cuBLAS: its workspace and the code of its kernels
  const std::size_t free = device_free_bytes();
  return free >= reserve && free - reserve >= bytes;
}

Turn turn_of(int run, int layers) {
  const int half = layers / 2;
  return {run % layers, (run + half) % layers, (run + half + 1) % layers};
}

}  // namespace dtfm::kernels
