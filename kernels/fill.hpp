// Random contents for buffers that are timed. Zeros would draw less power, and kernels would run faster.
#pragma once

#include <cstdint>

namespace dtfm::kernels {

/// Fills `to` with uniform random numbers of the given mean and standard deviation. The same seed gives the
/// same numbers in every format, up to rounding.
template <class T>
void fill_random(T* to, std::int64_t size, std::uint64_t seed, float mean, float deviation);

void fill_random_integers(int* to, std::int64_t size, std::uint64_t seed, int below);

}  // namespace dtfm::kernels
