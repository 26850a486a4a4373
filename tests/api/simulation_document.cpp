// Tests the result file of a simulation, for an iteration derived by hand.
#include "planner/io/simulation_document.hpp"

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "simulator/report/run_statistics.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/two_stages.hpp"

using namespace dtfm;
using namespace dtfm::io;
using namespace dtfm::sim;
using nlohmann::json;

namespace {

/// Needed because Catch cannot print JSON.
std::string text(const json& value) {
  return value.dump();
}

api::SimulateResult result_of(const Topology& topology, const SimReport& report) {
  api::SimulateResult result;
  result.problem.topology = topology;
  result.report = report;
  return result;
}

/// The document of samples under the scenario "storm".
nlohmann::ordered_json document_of(const SampleSummary& samples) {
  api::SimulateRequest request;
  request.samples = 3;
  api::SimulateResult result = result_of(TwoStages().topology, {});
  result.scenario.name = "storm";
  result.samples = {3, 3, samples};
  return simulation_document(request, result);
}

}  // namespace

TEST_CASE("the result file has the specified content") {
  const TwoStages run;
  RunStatistics statistics(run.topology, memory_of_two, {{}, {}});
  statistics.on_interval(run.iteration());
  SimReport report;
  report.length_s = 13;
  report.iterations = {{0, 12.5}};
  report.iteration_time_s = distribution({12.5});
  report.events = {{3, "b/0 leaves"}};
  statistics.add_to(report, {0, 1}, 12.5);
  api::SimulateRequest request;
  request.options.seed = 7;
  request.notes = {"odd"};
  api::SimulateResult result = result_of(run.topology, report);
  result.fairness = FairnessComparison{1.5, 2};
  const json file = json(simulation_document(request, result));
  const std::set<std::string> expected = {"schema",           "topology",      "job",
                                          "scenario",         "seed",          "iterations",
                                          "iteration_time_s", "tokens_per_s",  "model_flops_per_s",
                                          "peak_flops_per_s", "bubble",        "stopped",
                                          "devices",          "links",         "events",
                                          "lost_work_s",      "critical_path", "out_of_memory",
                                          "fairness",         "simulator",     "version",
                                          "length_s",         "notes"};
  std::set<std::string> keys;
  for (const auto& [key, value] : file.items()) keys.insert(key);
  CHECK(keys == expected);
  CHECK(text(file["schema"]) == "\"dtfm-sim/1\"");
  CHECK(file["scenario"].is_null());
  CHECK(text(file["notes"]) == R"(["odd"])");
  CHECK(file["length_s"].get<double>() == 13);
  CHECK(file["iterations"][0]["duration_s"].get<double>() == 12.5);
  CHECK(file["iteration_time_s"]["p99"].get<double>() == 12.5);
  const json& second = file["devices"][1];
  CHECK(text(second["device"]) == "\"b/0\"");
  CHECK(second["waiting_s"].get<double>() == 6.5);  // 3.5 s for the network, 3 s for others
  CHECK(second["peak_memory_bytes"].get<double>() == 5e8 + 2e7);
  CHECK(second["memory_bytes"].get<double>() == 600);
  CHECK(text(file["links"][0]) == R"({"busy_s":3.0,"bytes":200.0,"from":"a","to":"b"})");
  CHECK(text(file["events"][0]) == R"({"date_s":3.0,"text":"b/0 leaves"})");
  CHECK(text(file["out_of_memory"]) == R"(["a/0","b/0"])");
  CHECK(file["critical_path"][1]["tasks"].get<int>() == 2);
  CHECK(text(file["fairness"]) == R"({"undisturbed_iteration_s":{"equal":1.5,"rtt":2.0},"used":"equal"})");
}

TEST_CASE("samples are reported as the distribution of their means") {
  std::vector<SimReport> runs(3);
  for (const int i : {0, 2}) {
    runs[at(i)].iterations = {{0, 1}};
    runs[at(i)].iteration_time_s.mean = 1 + i;
    runs[at(i)].tokens_per_s = 10;
  }
  const SampleSummary summary = sample_summary(runs);  // the second sample completed no iteration
  CHECK(summary.runs == 2);
  CHECK(summary.mean_s == std::vector<double>{1, 3});
  CHECK(summary.iteration_time_s.p50 == 2);
  const json file = json(document_of(summary));
  CHECK(file["samples"]["runs"].get<int>() == 2);
  CHECK(file["samples"]["iteration_time_s"]["p95"].get<double>() == Approx(2.9));
  CHECK(text(file["scenario"]) == "\"storm\"");
}

TEST_CASE("results for a model of images count images instead of tokens") {
  SimReport report;
  report.tokens_per_s = 10;
  api::SimulateResult result = result_of(TwoStages().topology, report);
  LayerChain chain;
  chain.input = ModelInput::images;
  result.problem.job.model = chain;
  result.samples = api::SimulateResult::Samples{};
  result.samples->summary.mean_s = {1};
  result.samples->summary.tokens_per_s = distribution({10});
  result.swarm = {{}, 0.5};
  const json file = json(simulation_document({}, result));
  CHECK(file["images_per_s"].get<double>() == 10);
  CHECK(file["samples"]["images_per_s"]["mean"].get<double>() == 10);
  CHECK(file["swarm"]["cost_per_million_images"].get<double>() == 0.5);
  for (const json& part : {file, file["samples"]}) CHECK_FALSE(part.contains("tokens_per_s"));
  CHECK_FALSE(file["swarm"].contains("cost_per_million_tokens"));
}

TEST_CASE("if no iteration was completed its duration is unknown") {
  const json file = json(document_of(sample_summary(std::vector<SimReport>(2))));
  for (const char* key : {"iteration_time_s", "tokens_per_s", "model_flops_per_s"})
    CHECK(file[key].is_null());
  for (const char* key : {"iteration_time_s", "tokens_per_s"}) CHECK(file["samples"][key].is_null());
}
