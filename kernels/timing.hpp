// Times of work on the device, by its own clock.
#pragma once

#include <functional>
#include <vector>

namespace dtfm::kernels {

/// Of repeated runs: the median, and how far they lie apart: (90th − 10th percentile) / median.
struct Times {
  double seconds = 0, spread = 0;
};

/// `seconds` must not be empty.
Times summary(std::vector<double> seconds);

/// A run calls steps in turn, each with the run's number: take another set of buffers each time, so that the
/// cache does not hold what the last run left. Runs until about 0.2 s have passed and at least twice to warm
/// up, then `runs` times. The result has the times of each step; `after`, if given, is called behind each run
/// and not timed; `meanwhile` once, while the device works on what is timed and nothing more is asked of it.
std::vector<Times> time_steps(int runs, const std::vector<std::function<void(int)>>& steps,
                              const std::function<void(int)>& after = {},
                              const std::function<void()>& meanwhile = {});

/// How many sets of buffers of `bytes` each to rotate: three times the cache at least, at least two.
int rotation(double bytes);

/// Whether a further set of `bytes` leaves the memory that libraries want when they are first used.
bool has_room(std::size_t bytes);

/// The layers, of so many in rotation, that the steps of a run work on: each on another one if there are
/// three, so that none finds in the cache what the step before it left. Half a rotation lies between a
/// layer's forward and its backward.
struct Turn {
  int forward = 0, backward = 0, update = 0;
};
Turn turn_of(int run, int layers);

}  // namespace dtfm::kernels
