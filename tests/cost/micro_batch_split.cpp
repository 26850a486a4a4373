#include "planner/cost/iteration_time/micro_batch_split.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "core/base/index.hpp"
#include "core/base/rng.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::cost;

namespace {

double end_of(const std::vector<PipelinePace>& pipelines, const std::vector<int>& counts) {
  double end = 0;
  for (std::size_t i = 0; i < counts.size(); ++i)
    if (counts[i] > 0) end = std::max(end, pipelines[i].warm_up_s + counts[i] * pipelines[i].steady_s);
  return end;
}

/// Returns the earliest end over all distributions.
double min_end(const std::vector<PipelinePace>& pipelines, int multiple, int total) {
  std::vector<int> counts(pipelines.size());
  double least = std::numeric_limits<double>::infinity();
  const std::function<void(std::size_t, int)> share = [&](std::size_t i, int left) {
    if (i + 1 == pipelines.size()) {
      counts[i] = left;
      least = std::min(least, end_of(pipelines, counts));
      return;
    }
    for (counts[i] = 0; counts[i] <= left; counts[i] += multiple) share(i + 1, left - counts[i]);
  };
  share(0, total);
  return least;
}

}  // namespace

// A pipeline that is twice as fast gets twice as many: 2 · 4 = 4 · 2 = 8 s. If the slow one needs 3 s of
// warm-up: 2 · 5 = 10 s against 3 + 4 · 1 = 7 s for the sixth micro-batch.
TEST_CASE("faster pipelines get more micro-batches") {
  CHECK(balanced_micro_batches({{0, 2}, {0, 4}}, 1, 6) == std::vector<int>{4, 2});
  CHECK(balanced_micro_batches({{0, 2}, {3, 4}}, 1, 6) == std::vector<int>{5, 1});
}

TEST_CASE("a pipeline that is slower with one micro-batch than the others with all gets none") {
  CHECK(balanced_micro_batches({{1, 1}, {100, 1}}, 1, 8) == std::vector<int>{8, 0});
}

TEST_CASE("shares are multiples of the required number") {
  CHECK(balanced_micro_batches({{0, 1}, {0, 1}}, 4, 12) == std::vector<int>{8, 4});
  CHECK(error_message([] {
          balanced_micro_batches({{0, 1}}, 4, 6);
        }) == "6 micro-batches are not a multiple of 4");
}

TEST_CASE("the last pipeline ends as early as in the best of all distributions") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 0);
    std::vector<PipelinePace> pipelines(1 + rng.below(4));
    for (PipelinePace& it : pipelines) it = {rng.below(3) * 4 * rng.uniform(), rng.below(4) * rng.uniform()};
    const int multiple = 1 + static_cast<int>(rng.below(3));
    const int total = multiple * static_cast<int>(rng.below(10));
    const std::vector<int> counts = balanced_micro_batches(pipelines, multiple, total);
    REQUIRE(std::accumulate(counts.begin(), counts.end(), 0) == total);
    for (const int count : counts) REQUIRE(count % multiple == 0);
    REQUIRE(end_of(pipelines, counts) == min_end(pipelines, multiple, total));
  }
}

// All micro-batches of such a pipeline end at the same time, so it gets all that no other pipeline ends
// before. A step for each of them would take minutes.
TEST_CASE("pipelines without time per micro-batch get any number of micro-batches at once") {
  CHECK(balanced_micro_batches({{0, 2}, {7, 0}}, 1, 1'000'000'000) == std::vector<int>{3, 999'999'997});
  CHECK(balanced_micro_batches({{5, 0}, {0, 1}, {9, 0}}, 4, 1'000'000'000) ==
        std::vector<int>{999'999'996, 4, 0});
  CHECK(balanced_micro_batches({{0, 0}, {0, 0}}, 1, 1'000'000'000) == std::vector<int>{1'000'000'000, 0});
}
