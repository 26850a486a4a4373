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

/// Two stages × two replicas on devices s0/0 … s0/3.
ordered_json document_of(const io::PlanRecord& record, const Job& job = chain_job(4, 0, 0)) {
  return io::plan_document(flat_topology({4}, link_of(1e-3, 1e8), link_of(1e-3, 1e8)), job,
                           plan_of(job, 2, 2, 1), record);
}

std::vector<std::string> keys_of(const ordered_json& json) {
  std::vector<std::string> keys;
  for (const auto& item : json.items()) keys.push_back(item.key());
  return keys;
}

}  // namespace

TEST_CASE("a plan file has the plan first and then what is known about it") {
  io::PlanRecord record;
  record.objective = Objective::comm_cost;
  record.comm_cost = {1.5, 2};
  record.lower_bound = {3.5, 4, "by hand"};
  record.search = {"random", 7, 10, search::Stopped::evaluations, {{1, 4}, {9, 3.5}}};
  record.version = "0.1.0";
  const ordered_json plan = document_of(record);
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
  CHECK(plan.dump() == document_of(record).dump());
}

// Pairs of devices and bytes, seconds and names are written to the specified keys. A memory deficit is
// rounded up to whole bytes, and numbers that JSON cannot represent are null.
TEST_CASE("the estimate of an iteration and the finalists are written") {
  io::PlanRecord record;
  record.iteration = {2.5, 44.8, 6e9, 1.5, 0, 0, 1, 0.75, 0.25, {{3, 10.25, 16e9}}};
  const Job job = chain_job(4, 0, 0);
  Plan other = plan_of(job, 1, 3, 1);
  other.execution.micro_batch = 2;
  other.execution.schedule = Schedule::one_f_one_b;
  other.execution.compression.gradients = 0.5;
  record.finalists = {{{nullptr, plan_of(job, 2, 2, 1), 2.5},
                       {{"nominal", 2.75, 3, 3.5}, {"storm", INFINITY, INFINITY, INFINITY}}},
                      {{nullptr, other, 2.625}, {}}};
  CHECK(
      document_of(record)["estimate"].dump() ==
      R"({"iteration_time_s":2.5,"tokens_per_s":44.8,"model_flops_per_s":6000000000.0,)"
      R"("cost_per_million_tokens":0.75,"cost_parts":{"devices":0.5,"egress":0.25},"breakdown":{"pipelines":1.5,)"
      R"("exposed_gradient_sync":0.0,"optimizer_step":0.0,"overhead":1.0},)"
      R"("memory":[{"device":"s0/3","needed_bytes":11.0,"capacity_bytes":16000000000.0}]})");
  CHECK(
      document_of(record)["finalists"].dump() ==
      R"([{"pipeline":2,"data":2,"tensor":1,"devices":4,"iteration_time_s":2.5,"simulated":{)"
      R"("nominal":{"mean_s":2.75,"p95_s":3.0,"max_s":3.5},"storm":{"mean_s":null,"p95_s":null,"max_s":null}},)"
      R"("decisions":{"micro_batch":1,"schedule":"gpipe","gradients":1.0}},)"
      R"({"pipeline":1,"data":3,"tensor":1,"devices":3,"iteration_time_s":2.625,"simulated":{},)"
      R"("decisions":{"micro_batch":2,"schedule":"1f1b","gradients":0.5}}])");
  record.iteration->usd_per_million_tokens.reset();
  const ordered_json estimate = document_of(record)["estimate"];
  CHECK(estimate["cost_per_million_tokens"].is_null());
  CHECK_FALSE(estimate.contains("cost_parts"));
  CHECK_FALSE(estimate.contains("comm_cost"));
}

TEST_CASE("the estimate for a model of images counts images instead of tokens") {
  Job job = chain_job(4, 0, 0);
  std::get<LayerChain>(job.model).input = ModelInput::images;
  io::PlanRecord record;
  record.objective = Objective::cost_per_token;
  record.iteration = {2.5, 44.8, 6e9, 1.5, 0, 0, 1, 0.75, 0.25, {}};
  record.lower_bound = {0.5, 0.75, "by hand"};
  record.explanation.emplace();
  record.explanation->found.now.tokens_per_s = 44.8;
  const ordered_json plan = document_of(record, job), &estimate = plan["estimate"];
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
  const ordered_json written = document_of({});
  CHECK(written["estimate"].empty());
  for (const char* key : {"lower_bound", "search", "warnings"}) CHECK_FALSE(written.contains(key));
}

TEST_CASE("an explanation is written with its sentences and the names of kinds and changes") {
  io::PlanRecord::Explanation explanation;
  explanation.found.bottleneck.dominant = {cost::Bottleneck::Kind::gradient_sync, 2, 0.5};
  explanation.found.bottleneck.peak_memory = cost::PeakMemoryDevice{{1, 10.25, 16e9}, 4};
  cost::WhatIf link, pipeline;
  link.iteration_s = 3;
  link.gain = 0.25;
  pipeline.change = cost::Change::pipeline_removed;
  pipeline.impossible = "too few devices";
  explanation.found.what_ifs = {link, pipeline};
  explanation.changes = {"faster links", "one pipeline fewer"};
  explanation.found.compute_bound_width = 2;
  io::PlanRecord record;
  record.explanation = explanation;
  const ordered_json json = document_of(record)["explanation"];
  CHECK(json["bottleneck"].dump() == R"({"kind":"gradient_sync","seconds":2.0,"share":0.5})");
  CHECK(json["peak_memory"].dump() ==
        R"({"device":"s0/1","needed_bytes":11.0,"capacity_bytes":16000000000.0,"state_bytes":4.0})");
  CHECK(
      json["changes"].dump() ==
      R"([{"change":"link_doubled","description":"faster links","iteration_time_s":3.0,"gain":0.25,"fits":true},)"
      R"({"change":"pipeline_removed","description":"one pipeline fewer","impossible":"too few devices"}])");
  CHECK(json["compute_bound"].dump() == R"({"compression":null,"width":2.0})");
}

TEST_CASE("a migration is written with the ids of devices and without an unknown duration") {
  io::PlanRecord::WarmStart warm{"old.json", 7200, {}, "a device is gone"};
  warm.result.migration = {10.25, 1, {}, 0, {{2, {{0, 2}}, 10.25, 1, {1, cost::no_device}}}};
  io::PlanRecord record;
  record.objective = Objective::device_efficiency;
  record.warm_start = warm;
  const ordered_json json = document_of(record)["warm_start"];
  CHECK(keys_of(json) == std::vector<std::string>{"plan", "horizon_s", "keeps_plan", "cannot_keep_reason",
                                                  "unchanged_iteration_time_s", "gain",
                                                  "break_even_iterations", "migration"});
  CHECK(json["gain"].is_null());
  CHECK(json["migration"].dump() ==
        R"({"bytes":11.0,"checkpoint_bytes":1.0,"devices":[{"device":"s0/2","layers":[[0,2]],)"
        R"("bytes":11.0,"checkpoint_bytes":1.0,"from":["s0/1","a checkpoint"]}]})");
  record.warm_start->result.gain = {2, 8};
  CHECK(document_of(record)["warm_start"]["gain"].dump() ==
        R"({"value":2.0,"unchanged":8.0,"unit":"device-seconds"})");
}
