#include "simulator/io/runs_reader.hpp"

#include <nlohmann/json.hpp>

#include "core/base/index.hpp"
#include "core/io/readers/job_reader.hpp"
#include "core/io/writers/plan_json.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/small_problems.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace dtfm;
using namespace dtfm::io;
using namespace dtfm::sim;

namespace {

const auto topology =
    std::make_shared<const Topology>(flat_topology({4}, link_of(0.01, 1e8), link_of(0.01, 1e8)));
const Roofline roofline;

std::vector<MeasuredRun> runs_in(const std::string& text, const std::filesystem::path& folder,
                                 const std::optional<Job>& job) {
  return parse_runs(text, "runs.csv", folder, {topology, job, roofline});
}

/// Returns runs given by their parameters, for a job of 8 layers and a batch of 8.
std::vector<MeasuredRun> runs_in(const std::string& text) {
  Job job = chain_job(8, 0, 1e6);
  job.training.global_batch = 8;
  return runs_in(text, ".", job);
}

std::string error_in(const std::string& text) {
  return error_message([&] { runs_in(text); });
}

/// Returns the text of a plan for two devices, 8 layers and three micro-batches.
std::string plan_text() {
  Job job = chain_job(8, 0, 1e6);
  job.training.global_batch = 3;
  return plan_json(*topology, job, plan_of(job, 2, 1, 3)).dump();
}

}  // namespace

TEST_CASE("rows have their micro-batch even if the job leaves it open") {
  Job open = chain_job(8, 0, 1e6);
  open.training.global_batch = 8;
  open.automatic = {Setting::micro_batch};
  open.listed = {{Setting::micro_batch, {1, 2}}};
  const auto runs = runs_in("pipeline,data,micro_batch,seconds\n2,2,,1\n2,2,2,1\n2,2,4,1\n", ".", open);
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].work->plan.execution.micro_batch == 1);
  CHECK(runs[1].work->plan.execution.micro_batch == 2);
  CHECK(runs[2].work->plan.execution.micro_batch == 4);
}

TEST_CASE("runs know which settings neither they nor their plans decide") {
  Job open = chain_job(8, 0, 1e6);
  open.training.global_batch = 8;
  open.automatic = {Setting::micro_batch, Setting::recompute};
  const auto runs = runs_in("pipeline,data,micro_batch,seconds\n2,2,,1\n2,2,2,1\n", ".", open);
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].work->undecided == open.automatic);
  CHECK(runs[1].work->undecided == SettingSet{Setting::recompute});
}

TEST_CASE("a row without a plan deploys the devices in their order") {
  const std::vector<MeasuredRun> runs = runs_in(
      "# seconds by hand\npipeline, data, seconds, micro_batch, global_batch, name\n"
      "2,2,1.5,2,16,\n\n4,1,2.5,-,,odd\n");
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].line == 3);
  CHECK(runs[0].name == "2 × 2, batch 16 by 2");
  CHECK(runs[0].seconds == 1.5);
  CHECK(runs[0].work->job.execution.micro_batch == 2);
  CHECK(runs[0].work->job.training.global_batch == 16);
  const Plan& plan = runs[0].work->plan;
  REQUIRE(plan.pipelines.size() == 2);
  for (int replica = 0; replica < 2; ++replica) {
    CHECK(plan.pipelines[at(replica)].micro_batches == 4);  // 16 / 2 / 2
    for (int stage = 0; stage < 2; ++stage)
      CHECK(plan.pipelines[at(replica)].stages[at(stage)].devices == std::vector{2 * replica + stage});
  }
  CHECK(runs[1].line == 5);
  CHECK(runs[1].name == "odd");
  CHECK(runs[1].work->job.training.global_batch == 8);
  CHECK(runs[1].work->plan.pipelines[0].stages.size() == 4);
}

TEST_CASE("a row with a plan uses that plan with its own or the named job") {
  const TemporaryFolder folder;
  folder.write("plans/two.json", plan_text());
  folder.write(
      "job.yaml",
      "version: 1\nname: other\nmodel: {kind: layers, layers: [{name: a, parameters: 1, forward_flops: 1 "
      "GFLOP, output: 1 MB, activation_memory: 1 MB, repeat: 8}]}\ntraining: {global_batch: 3}\n");
  const std::vector<MeasuredRun> runs =
      runs_in("plan,job,seconds\nplans/two.json,,1\nplans/two.json,-,2\nplans/two.json,job.yaml,3\n",
              folder.path(), std::nullopt);
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].name == "plans/two.json");
  CHECK(runs[0].work->job.name == "chain");
  CHECK(runs[0].work->plan.pipelines[0].micro_batches == 3);
  CHECK(runs[1].work == runs[0].work);  // simulated once
  CHECK(runs[2].work->job.name == "other");
  CHECK(simulate_seconds(runs, {}, 1)[0] == simulate_seconds(runs, {}, 1)[1]);
}

TEST_CASE("a row may name another topology and its peak memory") {
  const TemporaryFolder folder;
  folder.write("two.yaml",
               "version: 1\nname: pair\ndevices: [{site: a, count: 2, gpu: V100-16GB}]\n"
               "links: [{within: a, latency: 1 ms, bandwidth: 1 Gbps}]\n");
  Job job = chain_job(8, 0, 1e6);
  job.training.global_batch = 8;
  const std::string head = "topology,pipeline,data,seconds,peak_memory_bytes\n";
  const std::vector<MeasuredRun> runs =
      runs_in(head + "two.yaml,2,1,1,3e9\n,2,1,2,\ntwo.yaml,2,1,3,-\n", folder.path(), job);
  REQUIRE(runs.size() == 3);
  CHECK(runs[0].work->topology->name == "pair");
  CHECK(runs[0].network == "pair");
  CHECK(runs[0].peak_memory_bytes == 3e9);
  CHECK(runs[1].work->topology == topology);
  CHECK(runs[1].peak_memory_bytes == 0);
  CHECK(runs[2].work == runs[0].work);
  const auto error_with = [&](const std::string& row) {
    return error_message([&] { runs_in(head + row + "\n", folder.path(), job); });
  };
  CHECK(error_with("two.yaml,3,1,1,") ==
        "runs.csv:2:10: 3 stages × 1 pipelines are 3 devices; the topology has 2");
  CHECK_THAT(error_with("one.yaml,2,1,1,"),
             contains("runs.csv:2:1: " + folder.path().string() + "/one.yaml: cannot be opened"));
  CHECK_THAT(error_with("../two.yaml,2,1,1,"), contains("runs.csv:2:1: "));
  CHECK(error_with(",2,1,1,12") == "runs.csv:2:8: the memory must be from 1e6 to 1e15 bytes; found `12`");
  CHECK(error_with("two.yaml,2,1,1,17.5e9") ==
        "runs.csv:2:16: 17.5 GB exceed the memory of the GPUs of the plan, 16.94 GB");
  std::string many = head;
  for (std::size_t i = 0; i <= max_topologies; ++i) {
    const std::string name = "t" + std::to_string(i) + ".yaml";
    folder.write(name,
                 "version: 1\ndevices: [{site: a, count: 2, gpu: V100-16GB}]\n"
                 "links: [{within: a, latency: 1 ms, bandwidth: 1 Gbps}]\n");
    many += name + ",2,1,1,\n";
  }
  CHECK(error_message([&] { runs_in(many, folder.path(), job); }) ==
        "runs.csv:22:1: more than 20 topology files; split the table");
}

TEST_CASE("runs of the same parameters share their simulation") {
  const std::vector<MeasuredRun> runs =
      runs_in("pipeline,data,global_batch,seconds\n2,1,8,1\n2,1,,2\n2,1,16,3\n1,2,8,4\n");
  CHECK(runs[0].work == runs[1].work);
  CHECK(runs[0].work != runs[2].work);
  CHECK(runs[0].work != runs[3].work);
}

TEST_CASE("invalid tables are reported with position and reason") {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"", "runs.csv:1:1: expected a line with the names of the columns, such as `plan,seconds`"},
           {"1,2,3\n", "runs.csv:1:1: expected a line with the names of the columns, such as `plan,seconds`"},
           {"plan,secnds\n", "runs.csv:1:6: unknown column `secnds`; did you mean `seconds`?"},
           {"plan,seconds,plan\n", "runs.csv:1:14: duplicate column `plan`"},
           {"plan,job\n", "runs.csv:1:1: missing column `seconds` or `log`"},
           {"pipeline,seconds\n", "runs.csv:1:1: missing columns: expected `plan`, or `pipeline` and `data`"},
           {"pipeline,data,seconds\n2,1\n", "runs.csv:2:1: expected 3 cells; found 2"},
           {"pipeline,data,seconds\n2,,1\n", "runs.csv:2:1: expected a `data`; found none"},
           {"pipeline,data,seconds\n2,1,-\n", "runs.csv:2:1: expected `seconds` or `log`; found neither"},
           {"pipeline,data,seconds\n2,1,-3\n", "runs.csv:2:5: the time must not be negative; found `-3`"},
           {"pipeline,data,seconds\n2,1,0\n",
            "runs.csv:2:5: the time must be from 1e-09 to 1000000000 s; found 0 s"},
           {"pipeline,data,seconds\n2,1,1e300\n",
            "runs.csv:2:5: the time must be from 1e-09 to 1000000000 s; found 1e+300 s"},
           {"pipeline,data,seconds\n2,1,3 s\n",
            "runs.csv:2:5: the time: expected a decimal number; found `3 s`"},
           {"pipeline,data,seconds\n2x,1,3\n",
            "runs.csv:2:1: `pipeline`: expected a whole number from 1 to 1000000; found `2x`"},
           {"pipeline,data,seconds\n0,1,3\n",
            "runs.csv:2:1: `pipeline`: expected a whole number from 1 to 1000000; found `0`"},
           {"pipeline,data,seconds\n2,3,3\n",
            "runs.csv:2:1: 2 stages × 3 pipelines are 6 devices; the topology has 4"},
           {"pipeline,data,seconds\n1000000,1000000,3\n",
            "runs.csv:2:1: 1000000 stages × 1000000 pipelines are 1000000000000 devices; the topology has 4"},
           {"pipeline,data,micro_batch,seconds\n2,1,3,3\n",
            "runs.csv:2:5: a micro-batch of 3 does not divide a batch of 8"},
           {"pipeline,data,global_batch,seconds\n1,4,3,3\n",
            "runs.csv:2:5: a batch of 3 has only 3 micro-batches for 4 pipelines"},
           {"pipeline,data,global_batch,seconds\n4,1,1000000,3\n",
            "runs.csv:2:1: the run has 8e+06 computations per iteration; the maximum is 2e+06"},
           {"plan,seconds\nmissing.json,3\n",
            "runs.csv:2:1: ./missing.json: cannot be opened: No such file or directory"},
           {"plan,seconds\n../secret.json,3\n",
            "runs.csv:2:1: `../secret.json` is outside the folder of this file"},
           {"plan,seconds\n/dev/zero,3\n", "runs.csv:2:1: `/dev/zero` is outside the folder of this file"},
           {"plan,pipeline,seconds\na.json,2,3\n", "runs.csv:2:8: `pipeline` cannot be combined with a plan"},
           {"pipeline,data,seconds,log\n2,1,3,a.csv\n",
            "runs.csv:2:7: `log` cannot be combined with `seconds`"},
           {"pipeline,data,log\n2,1,../a.csv\n",
            "runs.csv:2:5: `../a.csv` is outside the folder of this file"},
           {"pipeline,data,job,seconds\n2,1,none.yaml,3\n",
            "runs.csv:2:5: ./none.yaml: cannot be opened: No such file or directory"}}) {
    CAPTURE(text);
    CHECK(error_in(text) == message);
  }
  std::string many = "pipeline,data,seconds\n";
  for (std::size_t i = 0; i <= max_runs; ++i) many += "1,1,1\n";
  CHECK(error_in(many) == "runs.csv:202:1: more than 200 runs");
}

TEST_CASE("errors in a named file are reported for that file") {
  const TemporaryFolder folder;
  folder.write("cut.json", plan_text().substr(0, 60));
  folder.write("bare.json", R"({"pipelines": [{"stages": [{"layers": [0, 8], "devices": ["s0/0"]}]}]})");
  folder.write("job.yaml", "version: 1\nname: x\n");
  const auto error_with = [&](const std::string& row, const std::optional<Job>& job) {
    return error_message([&] { runs_in("plan,job,seconds\n" + row + "\n", folder.path(), job); });
  };
  const std::string path = folder.path().string();
  CHECK_THAT(error_with("cut.json,,1", std::nullopt), contains(path + "/cut.json:"));
  CHECK(error_with("bare.json,,1", std::nullopt) ==
        "runs.csv:2:1: " + path + "/bare.json has no job: name one in a column `job`");
  CHECK_THAT(error_with("bare.json,job.yaml,1", std::nullopt),
             contains("runs.csv:2:11: " + path + "/job.yaml:1:1: missing key"));
  CHECK_THAT(error_with("bare.json,,1", chain_job(4, 0, 1)), contains(path + "/bare.json"));
  CHECK(error_with("bare.json,,1", chain_job(8, 0, 1)) == "no error");
}

// The table names files relative to its folder, even if the table is in the working folder.
TEST_CASE("the table and the files next to it are read") {
  const TemporaryFolder folder;
  folder.write("two.json", plan_text());
  folder.write("runs.csv", "\xEF\xBB\xBFplan,seconds\r\ntwo.json,7\r\n");
  const std::vector<MeasuredRun> runs =
      read_runs(folder.path() / "runs.csv", {topology, std::nullopt, roofline});
  REQUIRE(runs.size() == 1);
  CHECK(runs[0].seconds == 7);
  folder.write("bad.csv", "plan,seconds\n\x80,1\n");
  CHECK_THAT(error_message([&] {
               read_runs(folder.path() / "bad.csv", {topology, std::nullopt, roofline});
             }),
             contains("bad.csv:2:1"));
}
