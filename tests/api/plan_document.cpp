#include "planner/io/plan_document.hpp"

#include <cmath>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;
using nlohmann::ordered_json;

namespace {

/// An answer without anything but a plan: two stages × two replicas on devices s0/0 … s0/3.
api::PlanAnswer bare_answer(const Job& job = chain_job(4, 0, 0)) {
  return {{flat_topology({4}, link_of(1e-3, 1e8), link_of(1e-3, 1e8)), job, {}, {}}, plan_of(job, 2, 2, 1)};
}

std::vector<std::string> keys_of(const ordered_json& json) {
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  return keys;
}

}  // namespace

TEST_CASE("a plan file has the plan first and then what is known about it") {
  api::PlanAnswer answer = bare_answer();
  answer.objective = Objective::comm_cost;
  answer.problem.job.training.global_batch = 2;
  const api::CommCostProblem problem;
  answer.comm_cost = api::CommCostAnswer{problem, Placement(2, 2), {1.5, 2}};
  answer.lower_bound = {3.5, 4, "by hand"};
  answer.search = {"random", 7, 10, search::Stopped::evaluations, {{1, 4}, {9, 3.5}}};
  const ordered_json plan = io::plan_document(answer);
  CHECK(keys_of(plan) == std::vector<std::string>{"schema", "topology", "job", "objective", "parallelism",
                                                  "execution", "pipelines", "groups", "ranks", "unused",
                                                  "estimate", "lower_bound", "finalists", "search",
                                                  "version"});
  CHECK(plan["objective"] == "comm-cost");
  CHECK(plan["estimate"].dump() ==
        R"({"comm_cost":{"data_parallel_s":1.5,"pipeline_parallel_s":2.0,"total_s":3.5}})");
  CHECK(plan["lower_bound"].dump() == R"({"value":3.5,"unit":"s","gap":0.125,"method":"by hand"})");
  CHECK(
      plan["search"].dump() ==
      R"({"strategy":"random","seed":7,"evaluations":10,"stopped":"evaluations","convergence":[[1,4.0],[9,3.5]]})");
  CHECK(plan.dump() == io::plan_document(answer).dump());
}

// Pairs of devices and bytes, seconds and names are written to the specified keys. A memory deficit is
// rounded up to whole bytes, and numbers that JSON cannot represent are null.
TEST_CASE("the estimate of an iteration and the finalists are written") {
  api::PlanAnswer answer = bare_answer();
  answer.estimate = {2.5, 44.8, 6e9, 1.5, 0, 0, 1, 0.75, 0.25, {{3, 10.25, 16e9}}};
  const Job job = chain_job(4, 0, 0);
  Plan other = plan_of(job, 1, 3, 1);
  other.execution.micro_batch = 2;
  other.execution.schedule = Schedule::one_f_one_b;
  other.execution.compression.gradients = 0.5;
  answer.finalists = {{{nullptr, plan_of(job, 2, 2, 1), 2.5},
                       {{"nominal", 2.75, 3, 3.5}, {"storm", INFINITY, INFINITY, INFINITY}}},
                      {{nullptr, other, 2.625}, {}}};
  CHECK(
      io::plan_document(answer)["estimate"].dump() ==
      R"({"iteration_time_s":2.5,"tokens_per_s":44.8,"model_flops_per_s":6000000000.0,)"
      R"("cost_per_million_tokens":0.75,"cost_parts":{"devices":0.5,"egress":0.25},"breakdown":{"pipelines":1.5,)"
      R"("exposed_gradient_sync":0.0,"optimizer_step":0.0,"overhead":1.0},)"
      R"("memory":[{"device":"s0/3","needed_bytes":11.0,"capacity_bytes":16000000000.0,"state_bytes":0.0,"process_bytes":0.0,)"
      R"("reserved_bytes":11.0,"verdict":"fits"}]})");
  CHECK(
      io::plan_document(answer)["finalists"].dump() ==
      R"([{"pipeline":2,"data":2,"tensor":1,"devices":4,"iteration_time_s":2.5,"simulated":{)"
      R"("nominal":{"mean_s":2.75,"p95_s":3.0,"max_s":3.5},"storm":{"mean_s":null,"p95_s":null,"max_s":null}},)"
      R"("decisions":{"micro_batch":1,"schedule":"gpipe","gradients":1.0}},)"
      R"({"pipeline":1,"data":3,"tensor":1,"devices":3,"iteration_time_s":2.625,"simulated":{},)"
      R"("decisions":{"micro_batch":2,"schedule":"1f1b","gradients":0.5}}])");
  answer.estimate->usd_per_million_tokens.reset();
  const ordered_json estimate = io::plan_document(answer)["estimate"];
  CHECK(estimate["cost_per_million_tokens"].is_null());
  CHECK_FALSE(estimate.contains("cost_parts"));
  CHECK_FALSE(estimate.contains("comm_cost"));
}

TEST_CASE("the estimate for a model of images counts images instead of tokens") {
  Job job = chain_job(4, 0, 0);
  std::get<LayerChain>(job.model).input = ModelInput::images;
  api::PlanAnswer answer = bare_answer(job);
  answer.objective = Objective::cost_per_token;
  answer.estimate = {2.5, 44.8, 6e9, 1.5, 0, 0, 1, 0.75, 0.25, {}};
  answer.lower_bound = {0.5, 0.75, "by hand"};
  answer.explanation.emplace();
  answer.explanation->now.tokens_per_s = 44.8;
  answer.explanation->bottleneck.resource = {false, 0, 1};
  const ordered_json plan = io::plan_document(answer), &estimate = plan["estimate"];
  CHECK(keys_of(estimate) == std::vector<std::string>{"iteration_time_s", "images_per_s", "model_flops_per_s",
                                                      "cost_per_million_images", "cost_parts", "breakdown",
                                                      "memory"});
  CHECK(estimate["images_per_s"] == 44.8);
  CHECK(estimate["cost_per_million_images"] == 0.75);
  CHECK(plan["lower_bound"]["unit"] == "USD per million images");
  CHECK(plan["explanation"]["now"]["images_per_s"] == 44.8);
  CHECK_FALSE(plan["explanation"]["now"].contains("tokens_per_s"));
}

TEST_CASE("unknown values are omitted from a plan file") {
  const ordered_json written = io::plan_document(bare_answer());
  CHECK(written["estimate"].empty());
  for (const char* key : {"lower_bound", "search"}) CHECK_FALSE(written.contains(key));
}

TEST_CASE("an explanation is written with its sentences and the names of kinds and changes") {
  cost::PlanExplanation explanation;
  explanation.bottleneck.resource = {false, 0, 1};
  explanation.bottleneck.dominant = {cost::Bottleneck::Kind::gradient_sync, 2, 0.5};
  explanation.bottleneck.peak_memory = cost::DeviceMemory{1, 10.25, 16e9, 4, 2};
  cost::WhatIf link, pipeline;
  link.first = link.second = 0;
  link.iteration_s = 3;
  link.gain = 0.25;
  pipeline.change = cost::Change::pipeline_removed;
  pipeline.first = 0;
  pipeline.devices = {2};
  pipeline.impossible = "too few devices";
  explanation.what_ifs = {link, pipeline};
  explanation.compute_bound_width = 2;
  api::PlanAnswer answer = bare_answer();
  answer.explanation = explanation;
  const ordered_json json = io::plan_document(answer)["explanation"];
  CHECK(json["bottleneck"].dump() == R"({"kind":"gradient_sync","seconds":2.0,"share":0.5})");
  CHECK(
      json["peak_memory"].dump() ==
      R"({"device":"s0/1","needed_bytes":11.0,"capacity_bytes":16000000000.0,"state_bytes":4.0,"process_bytes":2.0,)"
      R"("reserved_bytes":9.0,"verdict":"fits"})");
  CHECK(
      json["changes"].dump() ==
      R"([{"change":"link_doubled","description":"links inside s0 twice as fast","iteration_time_s":3.0,"gain":0.25,"fits":true},)"
      R"json({"change":"pipeline_removed","description":"one device fewer, and so no pipeline 0 (s0/2)","impossible":"too few devices"}])json");
  CHECK(json["compute_bound"].dump() == R"({"compression":null,"width":2.0})");
}

TEST_CASE("a migration is written with the ids of devices and without an unknown duration") {
  api::WarmStartAnswer warm{"old.json", 7200, {}};
  warm.result.obstacle = api::ContinuationObstacle::not_allowed;
  warm.result.migration = {10.25, 1, {}, 0, {{2, {{0, 2}}, 10.25, 1, {1, cost::no_device}}}};
  api::PlanAnswer answer = bare_answer();
  answer.objective = Objective::device_efficiency;
  answer.warm_start = warm;
  const ordered_json json = io::plan_document(answer)["warm_start"];
  CHECK(keys_of(json) == std::vector<std::string>{"plan", "horizon_s", "keeps_plan", "cannot_keep_reason",
                                                  "unchanged_iteration_time_s", "gain",
                                                  "break_even_iterations", "migration"});
  CHECK(json["gain"].is_null());
  CHECK(json["migration"].dump() ==
        R"({"bytes":11.0,"checkpoint_bytes":1.0,"devices":[{"device":"s0/2","layers":[[0,2]],)"
        R"("bytes":11.0,"checkpoint_bytes":1.0,"from":["s0/1","a checkpoint"]}]})");
  answer.warm_start->result.gain = {2, 8};
  CHECK(io::plan_document(answer)["warm_start"]["gain"].dump() ==
        R"({"value":2.0,"unchanged":8.0,"unit":"device-seconds"})");
}
