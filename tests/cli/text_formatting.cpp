#include "cli/common/text_formatting.hpp"

#include "cli/common/plan_formatting.hpp"
#include "cli/common/progress.hpp"
#include "cli/common/style.hpp"
#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::cli;

TEST_CASE("thousands are separated") {
  CHECK(with_thousands(0) == "0");
  CHECK(with_thousands(999) == "999");
  CHECK(with_thousands(1000) == "1,000");
  CHECK(with_thousands(-123456) == "-123,456");
  CHECK(with_thousands(-1234567) == "-1,234,567");
  CHECK(format_count(1, "device") == "1 device");
  CHECK(format_count(4096, "device") == "4,096 devices");
}

TEST_CASE("texts are truncated between characters") {
  CHECK(truncate_text("four", 4) == "four");
  CHECK(truncate_text("fives", 4) == "fiv…");
  CHECK(truncate_text("a→b→c", 4) == "a→b…");
  CHECK(truncate_text("ab", 1) == "…");
}

TEST_CASE("the gap is a share of the cost") {
  CHECK(relative_gap(4, 3) == 0.25);
  CHECK(relative_gap(4, 0) == 1);
  CHECK(relative_gap(0, 0) == 0);
  CHECK(relative_gap(4, 4.000001) == 0);
}

TEST_CASE("columns are as wide as their widest cell") {
  CHECK(printable(table({{"hop", "s"}, {"0 → 1", "2"}, {"→", "3"}}), false) ==
        "hop    s\n0 → 1  2\n→      3\n");
}

TEST_CASE("shares are percentages and remarks have one line each") {
  CHECK(format_percent(0.1376) == "13.8 %");
  CHECK(format_remarks("note", {}).empty());
  CHECK(printable(format_remarks("note", {"one", "two"}), false) == "note: one\nnote: two\n");
}

TEST_CASE("shapes include different depths, and the tensor degree if there is tensor parallelism") {
  const auto plan_of_depths = [](const std::vector<std::size_t>& depths) {
    Plan plan;
    for (const std::size_t depth : depths) plan.pipelines.push_back({1, std::vector<Stage>(depth)});
    return plan;
  };
  Plan plan = plan_of_depths({4, 4, 4});
  CHECK(format_shape(plan) == "4 × 3");
  CHECK(format_depth(plan) == "4 stages");
  plan.tensor = 2;
  CHECK(format_shape(plan) == "4 × 3 × 2 tensor");
  plan = plan_of_depths({2, 3});
  CHECK(format_shape(plan) == "2–3 × 2");
  CHECK(format_depth(plan) == "2–3 stages");
}

TEST_CASE("progress shows evaluations and best value and bound") {
  CHECK(format_progress({3200, 5000, 49.2243019, 41.0231}) ==
        "3,200 of 5,000 evaluations, best 49.2243 s, bound 41.0231 s, gap 16.7 %");
  CHECK(format_progress({10, 0, 2, 0}) == "10 evaluations, best 2 s");
}

TEST_CASE("styles have no width and are omitted or closed") {
  const std::string text = table({{"a", "b"}, {styled(Style::bad, "12"), "3"}});
  CHECK(printable(text, false) == "a   b\n12  3\n");
  CHECK(printable(text, true) == "\033[1ma   b\033[0m\n\033[31m12\033[0m  3\n");
  CHECK(table({{"a"}}, false) == "a\n");
  CHECK(printable(truncate_text(styled(Style::good, "four"), 3) + "\nx", true) == "\033[32mfo…\033[0m\nx");
  CHECK(printable("a\tb\033[1m\u009b\n", true) == "a\tb\\x1b[1m\\u009b\n");
}
