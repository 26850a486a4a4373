#include "core/base/rng.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <vector>

#include "core/base/index.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

// The numbers below come from this Python code, which gives the published values of both generators:
// SplitMix64 from 0 begins with e220a8397b1dcdaf, xoshiro256** from the state 1, 2, 3, 4 with 11520, 0,
// 1509978240.
//   M = 2**64 - 1
//   def split_mix(s):
//       s = (s + 0x9E3779B97F4A7C15) & M
//       z = ((s ^ s >> 30) * 0xBF58476D1CE4E5B9) & M
//       z = ((z ^ z >> 27) * 0x94D049BB133111EB) & M
//       return s, z ^ z >> 31
//   rotl = lambda x, k: (x << k | x >> 64 - k) & M
//   def stream(seed, index):
//       s, S = split_mix(seed)[1] ^ index, []
//       for _ in range(4): s, z = split_mix(s); S.append(z)
//       while True:
//           yield rotl(S[1] * 5 & M, 7) * 9 & M
//           t = S[1] << 17 & M
//           S[2] ^= S[0]; S[3] ^= S[1]; S[1] ^= S[2]; S[0] ^= S[3]; S[2] ^= t; S[3] = rotl(S[3], 45)
TEST_CASE("a stream is xoshiro256** with a state from SplitMix64") {
  struct Known {
    std::uint64_t seed, index;
    std::vector<std::uint64_t> numbers;
  };
  const std::vector<Known> known = {
      {0, 0, {0xfb5405f7bd79c540, 0x780c98e26cea5883, 0x2a146e0980febc66, 0x4851477db8791fca}},
      {1, 2, {0x84f02f195ab5fd66, 0x46ff6f0daaf44911, 0x8276408e60c29367, 0x9d7cf08eef179a7b}},
      {~std::uint64_t{0},
       12345,
       {0xd70a6fd25d20f79f, 0xe45dff62e197af1f, 0x3f1e8e9e829ab3ad, 0xf92e0dd584590fde}},
  };
  for (const auto& [seed, index, numbers] : known) {
    CAPTURE(seed, index);
    Rng rng = Rng::for_task(seed, index);
    for (const std::uint64_t number : numbers) CHECK(rng.next() == number);
  }
}

// [(next(g) >> 32) * 10 >> 32 for _ in range(12)]; none of these is rejected, which has a probability of 6 /
// 2^32.
TEST_CASE("numbers below a bound are the high half of a product") {
  Rng rng = Rng::for_task(2026, 7);
  for (const std::uint32_t number : {5u, 9u, 3u, 6u, 3u, 0u, 4u, 5u, 3u, 1u, 6u, 0u})
    CHECK(rng.below(10) == number);
}

// 3 · 2^30 is rejected for a quarter of all numbers. A biased version would return [0, 2^30), the values that
// two numbers map to, half of the time instead of a third.
TEST_CASE("numbers below a bound are unbiased") {
  Rng rng = Rng::for_task(1, 0);
  constexpr std::uint32_t bound = 3u << 30;
  constexpr int draws = 30'000;
  std::vector<int> modulo_three(3), thirds(3);
  for (int i = 0; i < draws; ++i) {
    const std::uint32_t number = rng.below(bound);
    REQUIRE(number < bound);
    ++thirds[number >> 30];
    ++modulo_three[number % 3];
  }
  // The standard deviation of each count is sqrt(30000 · 1/3 · 2/3) = 82.
  for (const int count : thirds) CHECK(std::abs(count - draws / 3) < 5 * 82);
  for (const int count : modulo_three) CHECK(std::abs(count - draws / 3) < 5 * 82);
}

TEST_CASE("numbers below small bounds take every value about equally often") {
  for (const std::uint32_t bound : {1u, 2u, 3u, 7u, 64u}) {
    Rng rng = Rng::for_task(bound, 0);
    std::vector<int> count(bound);
    for (std::uint32_t i = 0; i < 1000 * bound; ++i) {
      const std::uint32_t number = rng.below(bound);
      REQUIRE(number < bound);
      ++count[number];
    }
    for (const int times : count) CHECK(std::abs(times - 1000) < 5 * 32);  // sqrt(1000) = 32
  }
}

// next() >> 11 = 4607639197897934, 8733635510751000; both are exact in a double, and so is the product with
// 2^-53.
TEST_CASE("uniform numbers have 53 bits and are at least 0 and less than 1") {
  Rng rng = Rng::for_task(2026, 7);
  CHECK(rng.uniform() == 4607639197897934.0 / 9007199254740992.0);
  CHECK(rng.uniform() == 8733635510751000.0 / 9007199254740992.0);
  double sum = 0;
  for (int i = 0; i < 10'000; ++i) {
    const double number = rng.uniform();
    REQUIRE(number >= 0);
    REQUIRE(number < 1);
    sum += number;
  }
  CHECK(std::abs(sum / 10'000 - 0.5) < 5 * 0.00289);  // sqrt(1 / 12 / 10000)
}

TEST_CASE("streams differ by seed and by index") {
  std::set<std::uint64_t> first;
  for (std::uint64_t seed = 0; seed < 40; ++seed)
    for (std::uint64_t index = 0; index < 40; ++index) first.insert(Rng::for_task(seed, index).next());
  CHECK(first.size() == 1600);
  auto again = Rng::for_task(3, 4), same = Rng::for_task(3, 4);
  for (int i = 0; i < 100; ++i) REQUIRE(again.next() == same.next());
}

TEST_CASE("a shuffle is a permutation in which each value comes first about equally often") {
  std::vector<int> first(5);
  Rng rng = Rng::for_task(9, 0);
  for (int i = 0; i < 5000; ++i) {
    std::vector<int> values(5);
    std::iota(values.begin(), values.end(), 0);
    rng.shuffle(std::span(values));
    ++first[at(values.front())];
    std::sort(values.begin(), values.end());
    REQUIRE(values == std::vector<int>{0, 1, 2, 3, 4});
  }
  for (const int times : first) CHECK(std::abs(times - 1000) < 5 * 29);  // sqrt(5000 · 1/5 · 4/5) = 28.3
  std::vector<int> none, one{7};
  rng.shuffle(std::span(none));
  rng.shuffle(std::span(one));
  CHECK(one == std::vector<int>{7});
}
