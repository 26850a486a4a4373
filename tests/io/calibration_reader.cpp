#include "core/io/readers/calibration_reader.hpp"

#include <nlohmann/json.hpp>

#include "core/io/readers/job_reader.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/writers/plan_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

const std::string fine =
    "version: 1\ncompute_scale: 0.3\nmessage_overhead: 2 ms\nnetwork_efficiency: 0.9\n"
    "iteration_overhead: 0.5 s\n";

std::string with(const std::string& before, const std::string& after) {
  std::string text = fine;
  return text.replace(text.find(before), before.size(), after);
}

std::string error_in(const std::string& text) {
  return error_message([&] { parse_calibration(text, "c.yaml"); });
}

}  // namespace

TEST_CASE("the constants of a calibration are read from a file") {
  const Calibration constants = parse_calibration(fine, "c.yaml").constants;
  CHECK(constants.compute_scale == 0.3);
  CHECK(constants.message_overhead_s == 0.002);
  CHECK(constants.network_efficiency == 0.9);
  CHECK(constants.iteration_overhead_s == 0.5);
}

TEST_CASE("missing keys of newer calibration files have neutral defaults") {
  const FittedCalibration old = parse_calibration(fine, "c.yaml");
  CHECK(old.constants.micro_batch_overhead_s == 0);
  CHECK(old.constants.sync_efficiency == 1);
  CHECK(!old.spread);
  const std::string more = fine + "micro_batch_overhead: 3 us\nsync_efficiency: 0.75\n";
  CHECK(parse_calibration(more, "c.yaml").constants.micro_batch_overhead_s == 3e-6);
  CHECK(parse_calibration(more, "c.yaml").constants.sync_efficiency == 0.75);
}

TEST_CASE("fitted constants and their uncertainty read back as written") {
  FittedCalibration fitted{{1.1, 2.3456789e-3, 0.7, 0.1, 1e-5, 0.8}, CalibrationUncertainty{0.05, 12.5, {}}};
  for (std::size_t i = 0; i < CalibrationUncertainty::size; ++i)
    for (std::size_t k = 0; k < CalibrationUncertainty::size; ++k)
      fitted.spread->covariance[i][k] = (i == k ? 2e-5 : -1e-6) / 3;
  fitted.spread->longest_latency_s = 0.0712;
  const std::string text = format_json(calibration_json(fitted));
  const FittedCalibration read = parse_calibration(text, "written.json");
  CHECK(read.constants == fitted.constants);
  CHECK(read.spread == fitted.spread);
  fitted.spread.reset();
  CHECK(!parse_calibration(format_json(calibration_json(fitted)), "written.json").spread);
}

TEST_CASE("an impossible covariance is rejected with its position") {
  const std::string names[] = {"compute_scale",      "message_overhead",     "network_efficiency",
                               "iteration_overhead", "micro_batch_overhead", "sync_efficiency"};
  const auto with_rows = [&](const std::string& first, const std::string& second) {
    std::string text = fine + "spread:\n  residual: 0.05\n  degrees_of_freedom: 10\n  covariance:\n";
    for (const std::string& name : names)
      text += "    " + name + ": [" +
              (name == names[0]   ? first
               : name == names[1] ? second
                                  : "0, 0, 0, 0, 0, 0") +
              "]\n";
    return text;
  };
  const auto error_with = [&](const std::string& first, const std::string& second) {
    return error_in(with_rows(first, second));
  };
  CHECK(error_with("4, 2, 0, 0, 0, 0", "2, 1, 0, 0, 0, 0") == "no error");
  CHECK(error_with("4, 2, 0, 0, 0, 0", "1, 1, 0, 0, 0, 0") ==
        "c.yaml:11:23: `message_overhead`: is not symmetric with `compute_scale`");
  CHECK(error_with("4, 3, 0, 0, 0, 0", "3, 1, 0, 0, 0, 0") ==
        "c.yaml:11:23: `message_overhead`: has a covariance with `compute_scale` beyond the product of "
        "their standard deviations");
  CHECK(error_with("-4, 0, 0, 0, 0, 0", "0, 1, 0, 0, 0, 0") ==
        "c.yaml:10:20: `compute_scale`: has a negative variance");
  CHECK(error_with("4, 0, 0, 0, 0", "0, 1, 0, 0, 0, 0") ==
        "c.yaml:10:20: `compute_scale`: expected 6 numbers; found 5");
  // Files have the rows of the first six constants, or of all.
  CHECK_THAT(error_in(with_rows("4, 2, 0, 0, 0, 0", "2, 1, 0, 0, 0, 0") +
                      "    launch_scale: [0, 0, 0, 0, 0, 0, 1]\n"),
             contains("`compute_scale`: expected 8 numbers; found 6"));
  CHECK(error_in("schema: dtfm-calibration/2\n") ==
        "c.yaml:1:9: `schema`: expected `dtfm-calibration/1`; found `dtfm-calibration/2`");
  CHECK(error_in("compute_scale: 1\n") ==
        "c.yaml:1:1: missing `version: 1`, with which calibration constants begin");
}

TEST_CASE("shipped calibrations have their names; the default is neutral") {
  Calibration neutral;
  neutral.process_memory_bytes = 3.5e9;
  CHECK(shipped_calibration("neutral").constants == neutral);
  const FittedCalibration v100 = shipped_calibration("v100");
  CHECK(v100.name == "v100");
  CHECK(v100.constants.iteration_overhead_s > 0.5);
  CHECK_THAT(error_message([] { shipped_calibration("v101"); }), contains("v101: there is no shipped"));
}

TEST_CASE("a calibration is chosen by option, else by job, else by topology") {
  const FittedCalibration v100 = shipped_calibration("v100");
  Job job;
  Topology topology;
  CHECK(calibration_for({}, job, topology).name == "neutral");
  topology.calibration = v100;
  CHECK(calibration_for({}, job, topology).name == "v100");
  job.calibration = FittedCalibration{{2}, {}, {}};
  CHECK(calibration_for({}, job, topology).constants.compute_scale == 2);
  CHECK(calibration_for("neutral", job, topology).constants == shipped_calibration("neutral").constants);
  CHECK_THAT(error_message([&] { calibration_for("v101", job, topology); }),
             contains("shipped calibrations: neutral, v100"));
  CHECK_THAT(error_message([&] { calibration_for("none.json", job, topology); }), !contains("shipped"));
}

TEST_CASE("a job names a calibration or contains it, and is written so") {
  const auto job_with = [](const std::string& calibration) {
    return parse_job(
        "version: 1\nname: j\nmodel: {kind: transformer, layers: 2, hidden: 8, heads: 2, sequence: 16, "
        "vocabulary: 100}\ntraining: {global_batch: 2}\ncalibration: " +
            calibration + "\n",
        "folder/j.yaml");
  };
  const Job named = job_with("v100");
  CHECK(named.calibration->constants == shipped_calibration("v100").constants);
  CHECK(job_json(named)["calibration"] == "v100");
  const Job own = job_with(
      "{version: 1, compute_scale: 2, message_overhead: 0 s, network_efficiency: 1, iteration_overhead: 0 "
      "s}");
  CHECK(own.calibration->constants.compute_scale == 2);
  CHECK(parse_job(job_json(own).dump(), "written.json").calibration->constants == own.calibration->constants);
  const auto error_with = [&](const std::string& calibration) {
    return error_message([&] { job_with(calibration); });
  };
  CHECK_THAT(error_with("../c.json"), contains("is outside the folder of this file"));
  CHECK_THAT(error_with("c.json"), contains("folder/j.yaml:5:14"));
  CHECK_THAT(error_with("v101"), contains("shipped calibrations: neutral, v100"));
  CHECK_THAT(error_with("[v100]"), contains("folder/j.yaml:5:14"));
  CHECK_THAT(error_with("{version: 1, compute_scale: 0}"), contains("`compute_scale`: must be above zero"));
}

TEST_CASE("wrong constants are reported with position and reason") {
  CHECK(error_in(with("0.9", "1.3")) ==
        "c.yaml:4:21: `network_efficiency`: is a fraction and must be at most 1");
  CHECK(error_in(with("0.9", "0")) == "c.yaml:4:21: `network_efficiency`: must be above zero; found `0`");
  CHECK_THAT(error_in(with("2 ms", "2")), contains("c.yaml:3:19: `message_overhead`: expected a time"));
  CHECK(error_in(with("iteration_overhead: 0.5 s\n", "")) == "c.yaml:1:1: missing key `iteration_overhead`");
  CHECK(error_in(with("message_overhead", "message_overhed")) ==
        "c.yaml:3:1: unknown key `message_overhed`; did you mean `message_overhead`?");
}
