#include "core/base/stoppable_sort.hpp"

#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

/// Values with many equal keys, and their positions.
std::vector<std::pair<std::uint32_t, int>> values(std::size_t count) {
  Rng rng = Rng::for_task(1, count);
  std::vector<std::pair<std::uint32_t, int>> values;
  for (std::size_t i = 0; i < count; ++i) values.emplace_back(rng.below(1000), static_cast<int>(i));
  return values;
}

constexpr auto by_key = [](const auto& a, const auto& b) { return a.first < b.first; };

}  // namespace

TEST_CASE("a stoppable sort that is not stopped is stable") {
  const StopFunction never = [] { return false; };
  for (const std::size_t count : {0u, 1u, 1000u, 65'536u, 65'537u, 131'072u, 400'000u}) {
    CAPTURE(count);
    auto sorted = values(count), expected = sorted;
    std::stable_sort(expected.begin(), expected.end(), by_key);
    stable_sort_unless_stopped(sorted.begin(), sorted.end(), never, by_key);
    CHECK(sorted == expected);
    sorted = values(count);
    stable_sort_unless_stopped(sorted.begin(), sorted.end(), {}, by_key);
    CHECK(sorted == expected);
  }
}

TEST_CASE("a long sort can be stopped at any time") {
  for (int last = 1; last <= 10; ++last) {
    auto sorted = values(400'000);
    int asked = 0;
    const StopFunction stop = [&] { return ++asked == last; };
    CHECK_THROWS_AS(stable_sort_unless_stopped(sorted.begin(), sorted.end(), stop, by_key), WorkStopped);
    CHECK(asked == last);
  }
}
