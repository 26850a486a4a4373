#include "simulator/io/training_log.hpp"

#include <fmt/format.h>

#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

double seconds_of(const std::string& text) {
  return parse_training_log(text, "log");
}

std::string error_in(const std::string& text) {
  return error_message([&] { seconds_of(text); });
}

std::string mlperf_line(const std::string& key, double time_ms, const std::string& rest) {
  return fmt::format(
             R"(0: :::MLLOG {{"namespace": "", "time_ms": {}, "event_type": "INTERVAL_START", "key": "{}", {}}})",
             time_ms, key, rest) +
         "\n";
}

std::string block(double from_ms, double to_ms, int from, int to) {
  const auto samples = [](int count) {
    return fmt::format(
        R"("value": null, "metadata": {{"file": "train.py", "lineno": 7, "samples_count": {}}})", count);
  };
  return mlperf_line("block_start", from_ms, samples(from)) + mlperf_line("block_stop", to_ms, samples(to));
}

}  // namespace

// Blocks of 4, 2 and 2 batches of 256 take 10, 3 and 3.5 s per batch.
TEST_CASE("MLPerf logs give the median time of a batch") {
  const std::string batch =
      mlperf_line("global_batch_size", 0, R"("value": 256, "metadata": {"file": "train.py"})");
  const std::string text = "Epoch 0\n" + batch + block(1000, 41000, 0, 1024) + "loss 3.2\n" +
                           block(60000, 66000, 1024, 1536) + block(80000, 87000, 1536, 2048);
  CHECK(seconds_of(text) == Approx(3.5));
  CHECK(error_in(block(0, 1000, 0, 256)) == "log: line 2: block_stop before any global_batch_size");
  CHECK(error_in(batch + block(0, 1000, 256, 256)) ==
        "log: no block between a block_start and a block_stop whose samples_count is larger");
  CHECK(error_in(":::MLLOG {\"key\": 3}\n") == "log: line 1: /key: expected a string; found the number 3");
}

// Rows 10 iterations apart take 20, 21 and 60 s; the last row begins again.
TEST_CASE("histories of Weights & Biases give the median time between rows") {
  const std::string lines =
      "{\"_step\": 1, \"_timestamp\": 100.5, \"loss\": \"NaN\"}\n\n"
      "{\"_step\": 11, \"_timestamp\": 120.5}\n{\"eval\": 3}\n"
      "{\"_step\": 21, \"_timestamp\": 141.5}\n{\"_step\": 31, \"_timestamp\": 201.5}\n"
      "{\"_step\": 1, \"_timestamp\": 300}";
  CHECK(seconds_of(lines) == Approx(2.1));
  CHECK(seconds_of("_step,loss,_timestamp\n1,2.5,100.5\n11,,120.5\n12,3,\n21,3,141.5\n31,3,201.5\n") ==
        Approx(2.1));
  CHECK(seconds_of("_step,_runtime\n1,5\n3,6\n") == Approx(0.5));
}

TEST_CASE("global_step counts before _step, and reported durations before differences of times") {
  CHECK(seconds_of("_step,_timestamp,train/global_step\n1,0,10\n2,40,20\n3,80,30\n") == Approx(4));
  CHECK(seconds_of("_step,_timestamp,time_metrics/end_to_end(s)\n1,0,\n2,40,1.5\n3,80,1.7\n") == Approx(1.6));
  // The evaluation's row has only the logger's count.
  CHECK(seconds_of("{\"_step\": 1, \"_timestamp\": 0, \"train/global_step\": 10}\n"
                   "{\"_step\": 2, \"_timestamp\": 30}\n"
                   "{\"_step\": 3, \"_timestamp\": 40, \"train/global_step\": 20}\n") == Approx(4));
  CHECK(seconds_of("{\"train_step_timing\": 2.5, \"_step\": 1}\n") == Approx(2.5));
  CHECK(seconds_of("{\"train_step_timing in s\": 2.5, \"_step\": 1}\n") == Approx(2.5));
}

// Two rows of one iteration, such as losses and times, are logged apart.
TEST_CASE("repeated rows of a step do not shorten it") {
  CHECK(seconds_of("_step,_timestamp\n1,0\n1,3\n2,4\n2,7\n3,8\n") == Approx(4));
}

TEST_CASE("text that is not a training log is rejected") {
  const std::string expected =
      "expected lines of MLPerf (:::MLLOG {…}), or a history of Weights & Biases with the columns "
      "`_step` and `_timestamp`";
  CHECK(error_in("") == "log:1:1: " + expected);
  CHECK(error_in("step,time\n1,2\n") == "log:1:1: " + expected);
  CHECK(error_in("_step,_timestamp\n1,2\n") ==
        "log: no iterations with a time: expected rows with a growing `_step` and `_timestamp`");
  CHECK(error_in("_step,_timestamp\n1,2\n3\n") == "log:3:1: expected 2 cells; found 1");
  CHECK_THAT(error_in("{\"_step\": 1\n"), Catch::Matchers::Contains("log: line 1"));
  CHECK(error_in("{}\n[1]\n") == "log: line 2: expected a JSON object for each row of a history");
}
