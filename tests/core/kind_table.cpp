#include "planner/core/kind_table.hpp"

#include <set>
#include <string_view>

#include "planner/core/gradient_sync.hpp"
#include "planner/core/objective.hpp"
#include "planner/core/schedule.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;

namespace {

enum class Color { red, green };
struct ColorTraits {
  Color kind;
  std::string_view name;
};
constexpr auto colors = std::to_array<ColorTraits>({{Color::red, "red"}, {Color::green, "green"}});

static_assert(has_row_for_each(colors, Color::green));
static_assert(!has_row_for_each(colors, Color::red), "a row too many");
static_assert(!has_row_for_each(std::to_array<ColorTraits>({{Color::red, "red"}}), Color::green));
static_assert(!has_row_for_each(std::to_array<ColorTraits>({{Color::green, "green"}, {Color::red, "red"}}),
                                Color::green));

template <class Row>
void check_table(std::span<const Row> table) {
  std::set<std::string_view> names;
  for (const Row& row : table) {
    CAPTURE(std::string(row.name));
    CHECK_FALSE(row.name.empty());
    CHECK(names.insert(row.name).second);
    CHECK(&traits(row.kind) == &row);
    CHECK(name_of(row.kind) == row.name);
    CHECK(kind_named(table, row.name) == row.kind);
  }
  CHECK_FALSE(kind_named(table, "no such kind"));
}

}  // namespace

TEST_CASE("rows of a table are found by kind and by name") {
  CHECK(row_of(colors, Color::green).name == "green");
  CHECK(kind_named(std::span<const ColorTraits>(colors), "green") == Color::green);
}

TEST_CASE("each schedule, gradient sync algorithm and objective has one name") {
  check_table(schedule_table());
  check_table(objective_table());
  check_table(gradient_sync_table());
}

TEST_CASE("the planner tries only what a job may name") {
  for (const ScheduleTraits& schedule : schedule_table()) CHECK((schedule.in_jobs || !schedule.is_candidate));
  for (const GradientSyncTraits& sync : gradient_sync_table()) CHECK((sync.in_jobs || !sync.is_candidate));
}
