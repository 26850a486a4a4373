// Timing of work on the device by the device's own clock.
#pragma once

#include <functional>
#include <vector>

namespace dtfm::kernels {

/// Statistics of repeated runs: the median, and the spread (90th − 10th percentile) / median.
struct Times {
  double seconds = 0, spread = 0;
};

/// Summarizes `seconds`, which must not be empty.
Times summary(std::vector<double> seconds);

/// How long to measure.
struct Effort {
  int min_runs = 1;
  double min_warm_up_seconds = 0;  // and at least two runs
  double min_seconds = 0;          // runs are added to take about this long, up to 10,000
};

/// Warms up, then times each step of a run. A run calls the steps in turn with the number of the run; each
/// step should use another set of buffers every time, so that the cache does not hold what the previous run
/// left. `after`, if given, is called after each run and not timed. `meanwhile`, if given, is called once
/// while the device works on timed runs and all of them have been queued.
std::vector<Times> time_steps(const Effort& effort, const std::vector<std::function<void(int)>>& steps,
                              const std::function<void(int)>& after = {},
                              const std::function<void()>& meanwhile = {});

/// Returns how many sets of buffers of `bytes` each to rotate: at least two, and at least three times the
/// cache size.
int rotation(double bytes);

/// Whether another set of `bytes` leaves enough memory for what libraries allocate on first use.
bool has_room(std::size_t bytes);

/// Indices of the layers, out of `layers` in rotation, that the steps of a run work on. If there are at least
/// three, each step uses a different one, so that none finds in the cache what the previous step left. A
/// layer's backward pass follows half a rotation after its forward pass.
struct Turn {
  int forward = 0, backward = 0, update = 0;
};
Turn turn_of(int run, int layers);

}  // namespace dtfm::kernels
