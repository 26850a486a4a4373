#include "cli/common/launcher.hpp"

#include <sched.h>

#include "tests/support/catch.hpp"

using namespace dtfm::cli;

TEST_CASE("only the cores on which the process may run are available") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  const int cores = available_cores();
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  CHECK(cores == 1);
  CHECK(available_cores() == CPU_COUNT(&before));
}
