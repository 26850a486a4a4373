#include "simulator/engine/lazy_queue.hpp"

#include <set>
#include <vector>

#include "core/base/rng.hpp"
#include "simulator/engine/service_queues.hpp"
#include "tests/support/catch.hpp"

namespace dtfm {
using namespace sim;
namespace {

struct IsLess {
  bool operator()(int a, int b) const { return a < b; }
};

}  // namespace

TEST_CASE("a lazy queue returns the minimum as a sorted set does", "[engine]") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    INFO("seed " << seed);
    Rng rng = Rng::for_task(seed, 0);
    LazyQueue<int, IsLess> queue;
    std::set<int> expected;
    const int spread = 1 + static_cast<int>(rng.below(1000));
    for (int step = 0; step < 4000; ++step) {
      // New values are mostly greater than the first, as for events, and sometimes less. The queue grows,
      // then shrinks.
      const bool grows = rng.below(10) < (step < 2000 ? 6u : 4u);
      if (grows || expected.empty()) {
        const int base = expected.empty() ? 0 : *expected.begin();
        const int value = base - 20 + static_cast<int>(rng.below(static_cast<std::uint32_t>(spread) + 20));
        if (expected.insert(value).second) queue.push(value);
      } else {
        REQUIRE(queue.first() == *expected.begin());
        REQUIRE(queue.pop() == *expected.begin());
        expected.erase(expected.begin());
      }
      REQUIRE(queue.size() == expected.size());
      REQUIRE(queue.empty() == expected.empty());
    }
  }
}

TEST_CASE("a service queue orders by priority then ready time then position in the graph", "[engine]") {
  const std::vector<WaitingTask> tasks = {{0, 0, 0}, {1, 5, 1}, {1, 4, 2}, {0, 0, 3}, {2, 9, 4}, {1, 4, 5}};
  ServiceQueues lines(2);
  std::vector<int> served;
  for (const int task : {3, 5, 1, 0, 2, 4})
    lines.enqueue(1, task, [&](int waiting) { return tasks[at(waiting)]; });
  while (lines.has_pending()) {
    std::vector<int> next;
    lines.serve([&](int task) { served.push_back(task); }, [&](int task) { next.push_back(task); });
    if (served.size() < tasks.size())
      REQUIRE(next.size() == 1);
    else
      REQUIRE(next.empty());
    if (served.size() < 6) lines.release(1);
  }
  CHECK(served == std::vector<int>{4, 2, 5, 1, 0, 3});
}

}  // namespace dtfm
