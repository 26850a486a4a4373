#include "planner/io/calibration_reader.hpp"

#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"

using namespace dtfm;

namespace {

const std::string fine =
    "version: 1\ncompute_scale: 0.3\nmessage_overhead: 2 ms\nnetwork_efficiency: 0.9\n"
    "iteration_overhead: 0.5 s\n";

std::string with(const std::string& before, const std::string& after) {
  std::string text = fine;
  return text.replace(text.find(before), before.size(), after);
}

std::string error_in(const std::string& text) {
  return error_of([&] { parse_calibration(text, "c.yaml"); });
}

}  // namespace

TEST_CASE("the constants are read from a file") {
  const Calibration constants = parse_calibration(fine, "c.yaml");
  CHECK(constants.compute_scale == 0.3);
  CHECK(constants.message_overhead_s == 0.002);
  CHECK(constants.network_efficiency == 0.9);
  CHECK(constants.iteration_overhead_s == 0.5);
}

TEST_CASE("the built-in constants can be read") {
  const Calibration constants = built_in_calibration();
  CHECK(constants.compute_scale > 0);
  CHECK(constants.network_efficiency > 0.5);
}

TEST_CASE("constants that are wrong are told where and why") {
  CHECK(error_in(with("0.9", "1.3")) == "c.yaml:4:21: `network_efficiency`: is a share: at most 1");
  CHECK(error_in(with("0.9", "0")) == "c.yaml:4:21: `network_efficiency`: must be above zero; found `0`");
  CHECK_THAT(error_in(with("2 ms", "2")), contains("c.yaml:3:19: `message_overhead`: expected a time"));
  CHECK(error_in(with("iteration_overhead: 0.5 s\n", "")) == "c.yaml:1:1: missing key `iteration_overhead`");
  CHECK(error_in(with("message_overhead", "message_overhed")) ==
        "c.yaml:3:1: unknown key `message_overhed`; did you mean `message_overhead`?");
}
