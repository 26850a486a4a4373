#include "core/base/shared.hpp"

#include <vector>

#include "tests/support/catch.hpp"

using namespace dtfm;

TEST_CASE("copies share their value until one of them is edited") {
  Shared<std::vector<int>> first(std::vector<int>{1, 2, 3});
  Shared<std::vector<int>> second = first;
  CHECK(&*first == &*second);
  second.edit().push_back(4);
  CHECK(first->size() == 3);
  CHECK(second->size() == 4);
}

TEST_CASE("a value that nobody else shares is edited in place") {
  Shared<std::vector<int>> only(std::vector<int>{1});
  const std::vector<int>* before = &*only;
  only.edit()[0] = 2;
  CHECK(&*only == before);
  CHECK(only->front() == 2);
}
