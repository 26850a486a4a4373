#include "core/base/divisors.hpp"

#include <algorithm>

#include "tests/support/catch.hpp"

using namespace dtfm;

TEST_CASE("the largest divisor equals that of a linear search") {
  for (int number = 1; number <= 400; ++number)
    for (int most = 1; most <= number + 2; ++most) {
      int expected = 1;
      for (int i = 1; i <= std::min(most, number); ++i)
        if (number % i == 0) expected = i;
      CAPTURE(number, most);
      REQUIRE(largest_divisor(number, most) == expected);
    }
}

// A step for every number between would take hours.
TEST_CASE("the largest divisors of large numbers are found in few steps") {
  for (int repetition = 0; repetition < 1000; ++repetition) {
    REQUIRE(largest_divisor(2'147'483'647, 2'147'483'646) == 1);  // a prime
    REQUIRE(largest_divisor(1'000'000'000, 499'999'999) == 250'000'000);
    REQUIRE(largest_divisor(2 * 1'000'000'007, 1'000'000'006) == 2);
  }
}
