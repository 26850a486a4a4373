#include "core/base/parallel.hpp"

#include <stdexcept>
#include <string>

#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"

namespace dtfm {

TEST_CASE("results come back in index order for any number of threads") {
  const auto third_number = [](int task) {
    auto rng = Rng::for_task(7, static_cast<std::uint64_t>(task));
    rng.next();
    rng.next();
    return rng.next();
  };
  const auto alone = parallel_map(1000, 1, third_number);
  REQUIRE(alone.size() == 1000);
  CHECK(alone[999] == third_number(999));
  for (int threads : {2, 3, 8}) CHECK(parallel_map(1000, threads, third_number) == alone);
}

TEST_CASE("no tasks give no results") {
  CHECK(parallel_map(0, 4, [](int task) { return task; }).empty());
}

TEST_CASE("the exception of the smallest index is thrown for any number of threads") {
  const auto fails_from_40 = [](int task) {
    if (task >= 40) throw std::runtime_error(std::to_string(task));
    return task;
  };
  for (int threads : {1, 2, 3, 8}) CHECK_THROWS_WITH(parallel_map(100, threads, fails_from_40), "40");
}

}  // namespace dtfm
