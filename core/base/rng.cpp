#include "core/base/rng.hpp"

#include <bit>

namespace dtfm {
namespace {

std::uint64_t split_mix(std::uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

}  // namespace

Rng Rng::for_task(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t state = seed;
  state = split_mix(state) ^ index;  // hash first, so that (seed, index + 1) and (seed + 1, index) differ
  Rng rng;
  for (auto& word : rng.state_) word = split_mix(state);
  return rng;
}

std::uint64_t Rng::next() {
  const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const std::uint64_t shifted = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= shifted;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

std::uint32_t Rng::below(std::uint32_t bound) {
  std::uint64_t product = (next() >> 32) * bound;
  if (static_cast<std::uint32_t>(product) < bound) {
    const std::uint32_t threshold = -bound % bound;
    while (static_cast<std::uint32_t>(product) < threshold) product = (next() >> 32) * bound;
  }
  return static_cast<std::uint32_t>(product >> 32);
}

}  // namespace dtfm
