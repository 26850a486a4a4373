// Output files of a run, for an iteration derived by hand.
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "simulator/io/chrome_trace.hpp"
#include "simulator/io/task_csv.hpp"
#include "simulator/simulate.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/two_stages.hpp"

using namespace dtfm;
using namespace dtfm::io;
using namespace dtfm::sim;
using nlohmann::json;

namespace {

/// Returns the trace of two intervals: the iteration, and the same again from 12.5 on, aborted at 15.5.
json trace_of(const TwoStages& run) {
  std::string text;
  ChromeTrace trace(run.topology, memory_of_two, [&](std::string_view part) { text += part; });
  trace.on_interval(run.iteration());
  TwoStages again;
  again.abort_at(3);
  for (TaskRecord& record : again.result.tasks) {
    record.ready += 12.5;
    record.start += 12.5;
    record.finish += 12.5;
  }
  trace.on_interval({RunInterval::Kind::lost_iteration, 1, 12.5, 15.5, again.labelled, again.result});
  trace.finish();
  return json::parse(text)["traceEvents"];
}

/// Needed because Catch cannot print JSON.
std::string text(const json& value) {
  return value.dump();
}

std::vector<json> events(const json& trace, const std::string& kind, int process) {
  std::vector<json> found;
  for (const json& event : trace)
    if (event["ph"] == kind && event["pid"] == process) found.push_back(event);
  return found;
}

}  // namespace

TEST_CASE("a trace has one process per device with rows for computing and sending and receiving") {
  const json trace = trace_of(TwoStages());
  std::map<std::pair<int, int>, std::string> rows;
  std::map<int, std::string> processes;
  for (const json& event : trace) {
    if (event["ph"] != "M") continue;
    if (event["name"] == "process_name") processes[event["pid"]] = event["args"]["name"];
    if (event["name"] == "thread_name") rows[{event["pid"], event["tid"]}] = event["args"]["name"];
  }
  CHECK(processes == std::map<int, std::string>{{0, "two"}, {1, "a/0"}, {2, "b/0"}});
  using Row = std::pair<int, int>;
  CHECK(rows == std::map<Row, std::string>{{{0, 0}, "iterations"},
                                           {{1, 0}, "compute"},
                                           {{1, 1}, "send"},
                                           {{1, 2}, "receive"},
                                           {{2, 0}, "compute"},
                                           {{2, 1}, "send"},
                                           {{2, 2}, "receive"}});
}

TEST_CASE("slices are the tasks in microseconds and in order of time") {
  const json trace = trace_of(TwoStages());
  double last = 0, computed = 0;
  std::vector<json> sent;
  for (const json& event : trace) {
    if (event["ph"] == "M") continue;
    CHECK(event["ts"].get<double>() >= last);
    last = event["ts"];
    if (event["ph"] != "X" || event["pid"] == 0) continue;
    CHECK(event["dur"].get<double>() >= 0);
    if (event["tid"] == 0) computed += event["dur"].get<double>();
    if (event["pid"] == 1 && event["tid"] == 1) sent.push_back(event);
  }
  // a/0 computes 5 s and b/0 6 s; in the second iteration, 2 s and 0.5 s remain.
  CHECK(computed == 13.5e6);
  REQUIRE(sent.size() == 4);
  CHECK(text(sent[1]["name"]) == "\"SA p0 s0 m1\"");
  CHECK(sent[1]["ts"].get<double>() == 2.5e6);
  CHECK(sent[1]["dur"].get<double>() == 1.5e6);
  CHECK(sent[3]["dur"].get<double>() == 0.5e6);  // A1 was aborted at 15.5
  const std::vector<json> iterations = events(trace, "X", 0);
  REQUIRE(iterations.size() == 2);
  CHECK(text(iterations[0]["name"]) == "\"iteration 0\"");
  CHECK(iterations[0]["dur"].get<double>() == 12.5e6);
  CHECK(text(iterations[1]["name"]) == "\"iteration 1 (lost)\"");
}

TEST_CASE("a trace shows both parts of a split backward pass") {
  // One stage of two layers, which take 1 s forward and 2 s backward each. The second one has no parameters,
  // so that input gradients take 1 + 2 s and weight gradients 1 s.
  Problem problem{flat_topology({1}, link_of(0, 1), link_of(0, 1)), chain_job(2, 1e6, 0), {}};
  std::get<LayerChain>(problem.job.model).layers[1].parameters = 0;
  problem.job.execution.schedule = Schedule::zero_bubble_h1;
  std::string written;
  ChromeTrace trace(problem.topology, memory_of_two, [&](std::string_view part) { written += part; });
  SimOptions options;
  options.iterations = 1;
  options.observers = {&trace};
  simulate(problem, plan_of(problem.job, 1, 1, 1), {}, options);
  trace.finish();
  const json all = json::parse(written)["traceEvents"];
  using Slice = std::tuple<std::string, double, double>;  // name, start and duration in microseconds
  std::vector<Slice> slices;
  for (const json& event : events(all, "X", 1)) slices.emplace_back(event["name"], event["ts"], event["dur"]);
  CHECK(slices ==
        std::vector<Slice>{{"F p0 s0 m0", 0, 2e6}, {"B p0 s0 m0", 2e6, 3e6}, {"WG p0 s0 m0", 5e6, 1e6}});
  std::vector<std::pair<double, double>> memory;
  for (const json& event : events(all, "C", 1)) memory.emplace_back(event["ts"], event["args"]["GB"]);
  CHECK(memory == std::vector<std::pair<double, double>>{{0, 1.1}, {6e6, 1.0}});
}

TEST_CASE("trace counters are link load and memory") {
  const json trace = trace_of(TwoStages());
  std::vector<std::pair<double, double>> load, memory;
  for (const json& event : events(trace, "C", 0))
    if (event["name"] == "a → b") load.emplace_back(event["ts"], event["args"]["Gbps"]);
  for (const json& event : events(trace, "C", 1))
    if (event["ts"] < 12.5e6) memory.emplace_back(event["ts"], event["args"]["GB"]);
  // 100 bytes in 1.5 s are 100 · 8 / 1.5 bit/s; A1 follows A0 without a gap. In the second interval A1,
  // aborted half a second after its start at 15, has no known rate.
  REQUIRE(load.size() == 4);
  CHECK(load[0].first == 1e6);
  CHECK(load[0].second == Approx(800 / 1.5 * 1e-9).epsilon(1e-5));
  CHECK(load[1] == std::pair(4e6, 0.0));
  CHECK(load[2] == std::pair(13.5e6, load[0].second));
  CHECK(load[3] == std::pair(15e6, 0.0));
  CHECK(memory == std::vector<std::pair<double, double>>{{0, 1.1}, {1e6, 1.2}, {10e6, 1.1}, {12e6, 1.0}});
}

TEST_CASE("concurrent messages have separate rows") {
  TwoStages run;
  run.labelled.graph.tasks[3].queue = no_index;
  run.result.tasks[3] = {TaskState::done, 2, 2, 4};  // A1 overlaps A0, which is in transit from 1 to 2.5
  const json trace = trace_of(run);
  std::set<std::string> names;
  for (const json& event : trace)
    if (event["ph"] == "M" && event["name"] == "thread_name" && event["pid"] == 1)
      names.insert(event["args"]["name"]);
  CHECK(names == std::set<std::string>{"compute", "send", "send 2", "receive"});
}

TEST_CASE("the task table names the interval and leaves cells empty for what did not happen") {
  std::string text;
  TaskCsv csv([&](std::string_view part) { text += part; });
  TwoStages run;
  csv.on_interval(run.iteration());
  run.abort_at(3);
  const RunInterval lost{RunInterval::Kind::lost_iteration, 1, 0, 3, run.labelled, run.result};
  csv.on_interval(lost);
  csv.on_interval(lost);
  CHECK_THAT(text,
             contains("id,state,ready,start,finish\ni0 F p0 s0 m0,DONE,0,0,1\ni0 F p0 s0 m1,DONE,1,1,2\n"));
  CHECK_THAT(text, contains("\ni1.lost1 SA p0 s0 m1,CUT,2,2.5,\n"));
  CHECK_THAT(text, contains("\ni1.lost2 F p0 s1 m1,BLOCKED,,,\n"));
}
