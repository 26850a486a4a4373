// Random contents for buffers that are timed: zeros would take less power, and so less time.
#pragma once

#include <cstdint>

namespace dtfm::kernels {

/// Uniform, of the given mean and standard deviation; the same for the same seed in every format, but for
/// rounding.
template <class T>
void fill_random(T* to, std::int64_t size, std::uint64_t seed, float mean, float deviation);

void fill_random_integers(int* to, std::int64_t size, std::uint64_t seed, int below);

}  // namespace dtfm::kernels
