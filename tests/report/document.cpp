// Tests the document of a report page and the page around it: their content, and that names are escaped.
#include "cli/common/report_file.hpp"
#include "planner/report/report_document.hpp"
#include "planner/report/report_html.hpp"
#include "planner/io/plan_document.hpp"
#include "planner/io/simulation_document.hpp"
#include "core/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/two_stages.hpp"

using namespace dtfm;
using namespace dtfm::report;
using namespace dtfm::io;
using namespace dtfm::sim;
using nlohmann::ordered_json;

namespace {

const std::string hostile = "</script><script>window.hacked=1</script>{{data}}\u2028'\"&\\u003c";

std::string text(const ordered_json& value) {
  return value.dump();  // needed because Catch cannot print JSON
}

Plan plan_of_two() {
  Plan plan;
  plan.execution.schedule = Schedule::gpipe;
  plan.execution.gradient_sync = GradientSync::sharded_ps;
  plan.pipelines = {{2, {{{0, 3}, {0}}, {{3, 4}, {1}}}}};
  return plan;
}

ordered_json simulation_of(const Topology& topology, const SimReport& report,
                           std::optional<api::SimulateResult::Samples> samples = {}) {
  api::SimulateResult result;
  result.problem.topology = topology;
  result.report = report;
  result.samples = std::move(samples);
  result.scenario.compute_jitter.cv = 0.1;
  return simulation_document({}, result);
}

ordered_json document_of(const Topology& topology) {
  const TwoStages run;
  TimelineRecorder recorder(2);
  recorder.on_interval(run.iteration());
  SimReport report;
  report.length_s = 12.5;
  report.iterations = {{0, 12.5}};
  report.links = {{0, 1, 200, 3}};
  ReportContent content{topology, "dtfm-test 1", plan_document({{topology, chain_job(4, 0, 1), {}, {}}, plan_of_two()}),
                        simulation_of(topology, report), recorder.timeline()};
  return report_document(std::move(content));
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++count;
  return count;
}

/// Returns the page, or nothing if this build has none.
std::optional<std::string> page_of(std::string_view title, const ordered_json& document) {
  if (!has_page()) return std::nullopt;
  return report_html(title, document);
}

}  // namespace

TEST_CASE("a document names the layers of each virtual stage") {
  Job job = chain_job(7, 0, 1);
  job.execution.schedule = Schedule::interleaved;
  job.execution.chunks = 2;
  Plan plan = plan_of_two();
  plan.pipelines[0].stages[0].layers = {0, 4};
  plan.pipelines[0].stages[1].layers = {4, 7};
  const Topology topology = TwoStages().topology;
  const auto computes = [&](std::size_t stage) {
    return text(report_document({topology,
                                 "dtfm-test 1",
                                 plan_document({{topology, job, {}, {}}, plan}),
                                 {},
                                 {}})["plan"]["pipelines"][0]["stages"][stage]["computes"]);
  };
  CHECK(computes(0) == "[[0,2],[3,5]]");
  CHECK(computes(1) == "[[2,3],[5,7]]");
  plan.pipelines[0].stages[0].virtual_layers = {1, 3};
  CHECK(computes(0) == "[[0,1],[2,5]]");
  CHECK(computes(1) == "[[1,2],[5,7]]");
}

TEST_CASE("a document has the plan and the simulation and the topology and the timeline") {
  const ordered_json document = document_of(TwoStages().topology);
  CHECK(document["schema"] == "dtfm-report/1");
  CHECK(document["program"] == "dtfm-test 1");
  CHECK(text(document["plan"]["pipelines"][0]["stages"][1]) == R"({"layers":[3,4],"devices":["b/0"]})");
  CHECK_FALSE(document["plan"].contains("ranks"));
  CHECK(document["simulation"]["schema"] == "dtfm-sim/1");
  CHECK(text(document["topology"]["sites"]) == R"([{"name":"a","devices":1},{"name":"b","devices":1}])");
  CHECK(text(document["topology"]["devices"]) == R"({"id":["a/0","b/0"],"site":[0,1],"gpu":[1,0]})");
  CHECK(document["timeline"]["title"] == "iteration 0");
}

TEST_CASE("times of the timeline are differences in ticks and empty columns are omitted") {
  const ordered_json timeline = document_of(TwoStages().topology)["timeline"];
  // 12.5 s are at most 10^8 ticks of a power of ten: microseconds.
  CHECK(timeline["tick_s"] == 1e-6);
  // a/0 computes from 0 to 1, 1 to 2, 8.5 to 10 and 10.5 to 12.
  const ordered_json& row = timeline["rows"][0];
  CHECK(text(row["start"]) == "[0,1000000,7500000,2000000]");
  CHECK(text(row["length"]) == "[1000000,1000000,1500000,1500000]");
  CHECK(row["kind"] == "FFBB");
  CHECK(text(row["micro_batch"]) == "[0,1,0,1]");
  CHECK_FALSE(row.contains("peer"));
  CHECK_FALSE(row.contains("tasks"));
  CHECK(text(timeline["rows"][1]["peer"]) == "[1,1]");
}

TEST_CASE("links of site pairs have the range over their devices except those inside a host") {
  Topology topology = TwoStages().topology;
  Device second = topology.devices[1];
  second.id = "b/1";
  second.host = 2;
  topology.devices.push_back(second);
  Eigen::MatrixXd latency(3, 3), bandwidth(3, 3);
  latency << 0, 0.01, 0.03, 0.02, 0, 0.001, 0.02, 0.002, 0;
  bandwidth << 0, 1e9, 5e8, 2e9, 0, 8e9, 2e9, 8e9, 0;
  topology.links = MeasuredLinks{latency, bandwidth};
  const ordered_json document = document_of(topology);
  CHECK(text(document["topology"]["links"]) ==
        R"([{"from":0,"to":1,"latency_s":[0.01,0.03],"bandwidth_bps":[500000000.0,1000000000.0]},)"
        R"({"from":1,"to":0,"latency_s":[0.02,0.02],"bandwidth_bps":[2000000000.0,2000000000.0]},)"
        R"({"from":1,"to":1,"latency_s":[0.001,0.002],"bandwidth_bps":[8000000000.0,8000000000.0]}])");
}

TEST_CASE("a comparison is included unchanged with only the topology") {
  const ordered_json comparison = {{"schema", "dtfm-compare/1"}, {"schemes", {{{"scheme", hostile}}}}};
  const ordered_json document =
      report_document({TwoStages().topology, "dtfm-test 1", {}, {}, {}, comparison});
  CHECK(text(document["comparison"]) == text(comparison));
  CHECK(document["topology"]["sites"].size() == 2);
  CHECK_FALSE(document.contains("plan"));
}

TEST_CASE("missing parts are omitted") {
  const Topology topology = TwoStages().topology;
  const ordered_json document = report_document({topology, "dtfm-test 1", {}, {}, Timeline{}});
  CHECK_FALSE(document.contains("comparison"));
  CHECK_FALSE(document.contains("plan"));
  CHECK_FALSE(document.contains("simulation"));
  CHECK_FALSE(document.contains("timeline"));
}

TEST_CASE("long lists are truncated and the document reports how many entries were dropped") {
  const Topology topology = TwoStages().topology;
  SimReport report;
  report.iterations.resize(2500);
  report.events.resize(2001);
  api::SimulateResult::Samples samples{3999, 3999, {}};
  samples.summary.runs = 3999;
  for (int i = 3999; i > 0; --i) samples.summary.mean_s.push_back(i);
  const ordered_json document =
      report_document({topology, "dtfm-test 1", {}, simulation_of(topology, report, samples)});
  const ordered_json& simulation = document["simulation"];
  CHECK(simulation["iterations"].size() == 2000);
  CHECK(text(simulation["omitted"]) == R"({"iterations":500,"events":1})");
  // Of 1 … 3999, every second one: the smallest, the largest and 1998 between them.
  const ordered_json& times = simulation["samples"]["mean_iteration_time_s"];
  REQUIRE(times.size() == 2000);
  CHECK(times[0] == 1.0);
  CHECK(times[1] == 3.0);
  CHECK(times[1999] == 3999.0);
}

TEST_CASE("the critical path is summed before it is truncated") {
  const Topology topology = TwoStages().topology;
  SimReport report;
  // 3000 steps from 10 s on, each 2 s after the previous one: 2999 of 1 s with 2 tasks compute, and the last,
  // of 4 s, sends.
  for (int i = 0; i < 2999; ++i) report.critical_path.push_back({"compute", 2, 10.0 + 2 * i, 11.0 + 2 * i});
  report.critical_path.push_back({"send", 1, 6008, 6012});
  const ordered_json document = report_document({topology, "dtfm-test 1", {}, simulation_of(topology, report)});
  CHECK(document["simulation"]["critical_path"].size() == 2000);
  CHECK(text(document["simulation"]["omitted"]) == R"({"critical_path":1000})");
  const ordered_json& path = document["critical_path"];
  CHECK(path["steps"] == 3000);
  CHECK(path["seconds"] == 6002.0);  // from 10 to 6012
  REQUIRE(path["kinds"].size() == 2);
  CHECK(text(path["kinds"][0]["text"]) == R"("compute")");
  CHECK(path["kinds"][0]["tasks"] == 5998);
  CHECK(path["kinds"][0]["seconds"] == 2999.0);
  CHECK(path["kinds"][0]["share"] == 2999.0 / 6002);  // most of the rest are gaps between steps
  CHECK(path["kinds"][1]["seconds"] == 4.0);
}

TEST_CASE("JSON for a script element can neither end it nor open another") {
  CHECK(script_json("</script>") == R"("\u003c/script\u003e")");
  CHECK(script_json("a&b<!--\u2028\u2029") == R"("a\u0026b\u003c!--\u2028\u2029")");
  CHECK(ordered_json::parse(script_json(hostile)) == hostile);
  CHECK(script_json("\xff") == "\"\xef\xbf\xbd\"");  // not UTF-8: replaced by the replacement character
}

TEST_CASE("text for HTML can neither open a tag nor end an attribute") {
  CHECK(html_text("<a href=\"x\" b='y'>&amp;") == "&lt;a href=&quot;x&quot; b=&#39;y&#39;&gt;&amp;amp;");
}

TEST_CASE("a page with hostile names has no more elements than one without") {
  Topology topology = TwoStages().topology;
  const auto plain = page_of("a title", document_of(topology));
  if (!plain) SUCCEED("built without the page: there is no npm");
  if (!plain) return;
  topology.name = hostile;
  topology.sites[0].name = hostile;
  topology.devices[0].id = hostile;
  const auto page = page_of(hostile, document_of(topology));
  CHECK(count_of(*page, "<script") == count_of(*plain, "<script"));
  CHECK(count_of(*page, "</script") == count_of(*plain, "</script"));
  CHECK(count_of(*page, "window.hacked") > 0);
  CHECK_THAT(*plain, contains("<title>a title</title>"));
  CHECK_THAT(*plain, contains("default-src 'none'"));
}

TEST_CASE("a report goes to a file") {
  CHECK_NOTHROW(cli::check_report(std::nullopt));
  CHECK_THROWS_AS(cli::check_report("-"), Error);
}
