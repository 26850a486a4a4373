// Timelines that dtfm-sim or train.py wrote are read back, and names of activities are parsed.
#include "simulator/io/measured_iteration.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "simulator/io/chrome_trace.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using namespace dtfm::sim;

namespace {

/// Two pipelines of two stages.
struct Run {
  Problem problem{flat_topology({4}, link_of(0.01, 1e8), link_of(0.01, 1e8)), chain_job(4, 1e6, 1e6), {}};
  Plan plan = plan_of(problem.job, 2, 2, 3);

  std::string trace(int iterations) const {
    std::string text;
    const auto memory_of = [](int, int) { return StageMemory{}; };
    io::ChromeTrace trace(problem.topology, memory_of, [&](std::string_view part) { text += part; });
    SimOptions options;
    options.iterations = iterations;
    options.observers = {&trace};
    simulate(problem, plan, {}, options);
    trace.finish();
    return text;
  }
};

/// A timeline of one device with iterations of these lengths in seconds, one after another, each of which has
/// a forward pass that takes half of it.
std::string timeline(const std::vector<double>& lengths, const std::string& device = "s0/0") {
  std::string text = R"({"traceEvents": [{"ph": "M", "pid": 1, "name": "process_name", "args": {"name": ")" +
                     device + R"("}})";
  double start = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    const double us = 1e6 * lengths[i];
    text += fmt::format(R"(,{{"ph": "X", "pid": 0, "tid": 0, "ts": {}, "dur": {}, "name": "iteration {}"}})",
                        start, us, i);
    text += fmt::format(R"(,{{"ph": "X", "pid": 1, "tid": 3, "ts": {}, "dur": {}, "name": "F p0 s0 m2"}})",
                        start + us / 4, us / 2);
    start += us;
  }
  return text + "]}";
}

std::string error_of(const std::string& text) {
  return error_message([&] { io::parse_measured_iteration(text, "t.json", *Run().problem.topology); });
}

}  // namespace

TEST_CASE("names of all activities of an iteration are parsed") {
  const Run run;
  const LabelledGraph lowered = iteration_graph(run.problem, run.plan);
  for (const TaskLabel& label : lowered.labels) {
    const auto parsed = parse_label(format_label(label));
    REQUIRE(parsed);
    CHECK(format_label(*parsed) == format_label(label));
    CHECK(parsed->activity == label.activity);
    CHECK(parsed->micro_batch == label.micro_batch);
  }
  for (const char* other : {"", "iteration 0", "F p", "F p-1", "F p0 x1", "X d1>", "F p99999999999", "FF p0"})
    CHECK_FALSE(parse_label(other));
}

TEST_CASE("a simulated timeline reads back as the iteration that it shows") {
  const bool has_barrier = GENERATE(true, false);
  Run run;
  run.plan.execution.iteration_barrier = has_barrier;
  const Timeline read = io::parse_measured_iteration(run.trace(3), "t.json", *run.problem.topology);
  CHECK(read.title == "iteration 2");  // of iterations 1 and 2, which take equally long
  using Track = TimelineRow::Track;
  std::map<std::pair<SpanKind, Track>, int> counts;
  double first_s = read.end_s;
  for (const TimelineRow& row : read.rows)
    for (const TimelineSpan& it : row.spans) {
      ++counts[{it.kind, row.track}];
      CHECK(it.start >= 0);
      CHECK(it.start <= it.end);
      CHECK(it.end <= read.end_s);
      if (has_barrier) CHECK(it.end <= read.length_s * (1 + 1e-9));
      first_s = std::min(first_s, it.start);
    }
  CHECK(counts[{SpanKind::forward, Track::compute}] == 2 * 2 * 3);
  CHECK(counts[{SpanKind::backward, Track::compute}] == 2 * 2 * 3);
  CHECK(counts[{SpanKind::activations, Track::send}] == 2 * 3);
  CHECK(counts[{SpanKind::activations, Track::receive}] == 2 * 3);
  CHECK(first_s == Approx(0).margin(1e-9));
}

TEST_CASE("the iteration of median length is read, without the first one") {
  const Run run;
  const Topology& topology = *run.problem.topology;
  const Timeline read = io::parse_measured_iteration(timeline({9, 2, 4, 3}), "t.json", topology);
  CHECK(read.title == "iteration 3");
  CHECK(read.length_s == Approx(3));
  REQUIRE(read.rows.size() == 1);
  REQUIRE(read.rows[0].spans.size() == 1);
  CHECK(read.rows[0].spans[0].start == Approx(0.75));
  CHECK(read.rows[0].spans[0].end == Approx(2.25));
  CHECK(read.rows[0].track == TimelineRow::Track::compute);  // the second row of computations
  CHECK(io::parse_measured_iteration(timeline({9}), "t.json", topology).title == "iteration 0");
  CHECK(io::parse_measured_iteration(timeline({9}, "s0/1:0"), "t.json", topology).rows[0].device == 1);
}

TEST_CASE("what is no timeline of the topology is rejected") {
  CHECK(error_of(timeline({})) == "t.json: has no iterations; expected a file written by train.py --trace");
  CHECK_THAT(error_of(timeline({1}, "mars")), contains("the topology has no device `mars`"));
  CHECK_THAT(error_of("{}"), contains("traceEvents"));
  CHECK_THAT(
      error_of(R"({"traceEvents": [{"ph": "X", "pid": 0, "name": "iteration 0", "ts": -1, "dur": 1}]})"),
      contains("/traceEvents/0/ts"));
  CHECK_THAT(error_of(R"({"traceEvents": [{"ph": "X", "pid": 0}]})"), contains("name"));
}
