// Checks upper bounds on sums against cases by hand.
#include "planner/cost/bounds/concave_majorant.hpp"

#include "core/base/infinity.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::cost;

// f(0) = 0, f(2) = 4 and f(3) = 5; f(1) = 1 is below the line between its neighbours. Slopes: 2, 2, 1.
TEST_CASE("a sum of a concave majorant is largest if all numbers are equal") {
  const ConcaveMajorant f({1, 4, 5});
  CHECK(f.max_price() == Approx(2));
  CHECK(f.max_sum(1, 3) == Approx(5));
  CHECK(f.max_sum(2, 2) == Approx(4));  // 1 and 1
  CHECK(f.max_sum(2, 5) == Approx(9));  // 2.5 and 2.5
  CHECK(f.max_sum(2, 9) == Approx(10));
  CHECK(f.max_profit(2, 6, 1.5) == Approx(2));  // 2 and 2: 8 − 4 · 1.5
  CHECK(f.max_profit(2, 6, 3) == Approx(0));
}

TEST_CASE("numbers of at least two have to be paid at any price") {
  const ConcaveMajorant f({1, 4, 5}, 2);
  CHECK(f.max_price() == Approx(1));
  CHECK(f.max_sum(2, 3) == -infinity);
  CHECK(f.max_sum(0, 3) == Approx(0));
  CHECK(f.max_sum(2, 5) == Approx(9));
  CHECK(f.max_profit(2, 6, 3) == Approx(-4));  // 8 − 4 · 3
}
