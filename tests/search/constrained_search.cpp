// Compares searches that may choose the shape of plans with searches for each of several shapes.
#include "planner/search/iteration_time/iteration_search.hpp"

#include <utility>

#include "tests/support/catch.hpp"
#include "tests/support/tiny_problems.hpp"

using namespace dtfm;
using namespace dtfm::search;

TEST_CASE("a search for a given shape finds nothing better than one for any shape") {
  constexpr std::pair<int, int> shapes[] = {{1, 8}, {2, 4}, {2, 3}, {3, 2}, {4, 1}};
  for (int number = 0; number < 4; ++number) {  // both schedules with both gradient synchronizations
    const Problem problem = tiny_problem(number, {8, 8, 6, 8, 12, 16});
    const double free_s = search_iteration(problem, {}).finalists.front().iteration_s;
    for (const auto& [stages, replicas] : shapes) {
      CAPTURE(number, stages, replicas);
      IterationSearchOptions options;
      options.limits = {stages, replicas};
      CHECK(free_s <= search_iteration(problem, options).finalists.front().iteration_s);
    }
  }
}
