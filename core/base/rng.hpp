// Random numbers that depend only on (seed, task index), never on a thread, a library version or a clock.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>

namespace dtfm {

/// xoshiro256** (Blackman and Vigna, 2018), seeded through SplitMix64. The distributions are implemented here
/// because those of the standard library differ between implementations.
class Rng {
 public:
  /// Returns an independent stream for task `index` of a run with `seed`.
  static Rng for_task(std::uint64_t seed, std::uint64_t index);

  std::uint64_t next();
  /// Uniform in [0, bound); bound ≥ 1. Unbiased (Lemire, 2019).
  std::uint32_t below(std::uint32_t bound);
  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  template <class T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[below(static_cast<std::uint32_t>(i))]);
  }

 private:
  std::array<std::uint64_t, 4> state_{};
};

}  // namespace dtfm
