#include "core/io/importers/foreign_plan.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/base/index.hpp"
#include "core/io/readers/csv_plan.hpp"
#include "core/io/readers/job_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

/// Returns hosts ga with two GPUs, gb with one and gc with three: devices 0 … 5 are ga:0, ga:1, gb, gc:0,
/// gc:1, gc:2.
Topology three_hosts() {
  Topology topology;
  topology.name = "hosts";
  topology.sites = {{"here"}};
  const std::vector<std::pair<const char*, int>> devices = {{"ga:0", 0}, {"ga:1", 0}, {"gb", 1},
                                                            {"gc:0", 2}, {"gc:1", 2}, {"gc:2", 2}};
  for (const auto& [id, host] : devices) {
    Device device;
    device.id = id;
    device.host = host;
    topology.devices.push_back(device);
  }
  topology.links = MeasuredLinks{Eigen::MatrixXd::Constant(6, 6, 1e-3), Eigen::MatrixXd::Constant(6, 6, 1e9)};
  return topology;
}

Job seven_layers() {
  Job job;
  job.name = "seven";
  job.model = Transformer{7, 8, 2, 16, 100};
  job.training.global_batch = 32;
  job.execution.micro_batch = 2;
  job.execution.schedule = Schedule::one_f_one_b;
  return job;
}

PlanAndNotes read(const std::string& file, const std::string& text, const std::string& ranks = "",
                  const Job& job = seven_layers()) {
  const auto source =
      make_plan_source({file, text}, ranks.empty() ? std::nullopt : std::optional(NamedFile{"ranks", ranks}));
  return read_any_plan(source, three_hosts(), job);
}

std::string error_in(const std::string& file, const std::string& text, const std::string& ranks = "",
                     const Job& job = seven_layers()) {
  return error_message([&] { read(file, text, ranks, job); });
}

/// Formats a plan as micro-batches and stages of each pipeline: "8: gc:1[0,3) ga:0[3,5) …".
std::string format_plan(const Plan& plan) {
  const Topology topology = three_hosts();
  std::string text;
  for (const Pipeline& pipeline : plan.pipelines) {
    text += std::to_string(pipeline.micro_batches) + ":";
    for (const Stage& stage : pipeline.stages) {
      std::string devices;
      for (const int device : stage.devices) devices += " " + topology.devices[at(device)].id;
      text += devices + "[" + std::to_string(stage.layers.first) + "," + std::to_string(stage.layers.second) +
              ")";
    }
    text += "; ";
  }
  return text;
}

// Two pipelines of three stages on permuted devices, with seven layers split 3/2/2. 32 sequences in
// micro-batches of 2 are 16 micro-batches, 8 per pipeline.
const std::string worked_example = "8: gc:1[0,3) ga:0[3,5) gc:0[5,7); 8: gb[0,3) gc:2[3,5) ga:1[5,7); ";

const std::string flags =
    "torchrun --nnodes 6 pretrain_gpt.py --tensor-model-parallel-size 1 --pipeline-model-parallel-size 3 \\\n"
    "  --context-parallel-size 1 --num-layers 7 --pipeline-model-parallel-layout \"Ettt|tt|ttL\" \\\n"
    "  --micro-batch-size 2 --global-batch-size 32\n";
// Global ranks 0 … 5 in the two orders (rank = dp + D·pp, and pp + P·dp).
const std::string stage_major_ranks = "gc:1\ngb\nga:0\ngc:2\ngc:0\nga:1\n";
const std::string pipeline_major_ranks = "gc:1\nga:0\ngc:0\ngb\ngc:2\nga:1\n";

const std::string header = "device,pipeline,stage,first_layer,last_layer\n";
const std::string table = header +
                          "gc:1,0,0,0,2\nga:0,0,1,3,4\ngc:0,0,2,5,6\n"
                          "gb,1,0,0,2\ngc:2,1,1,3,4\nga:1,1,2,5,6\n";

}  // namespace

TEST_CASE("both rank orders of Megatron and the table and the plan file give the same plan") {
  CHECK(format_plan(read("train.sh", flags, stage_major_ranks).plan) == worked_example);
  CHECK(format_plan(read("train.sh", flags + "--use-tp-pp-dp-mapping\n", pipeline_major_ranks).plan) ==
        worked_example);
  CHECK(format_plan(read("plan.csv", table).plan) == worked_example);
  const std::string json = R"({"pipelines": [
    {"stages": [{"layers": [0, 3], "devices": ["gc:1"]}, {"layers": [3, 5], "devices": ["ga:0"]},
                {"layers": [5, 7], "devices": ["gc:0"]}]},
    {"stages": [{"layers": [0, 3], "devices": ["gb"]}, {"layers": [3, 5], "devices": ["gc:2"]},
                {"layers": [5, 7], "devices": ["ga:1"]}]}]})";
  CHECK(format_plan(read("plan.json", json).plan) == worked_example);
  // The other order makes another plan of the same ranks: pipeline 0 has ranks 0, 2, 4 or 0, 1, 2.
  CHECK(format_plan(read("train.sh", flags, pipeline_major_ranks).plan) ==
        "8: gc:1[0,3) gc:0[3,5) gc:2[5,7); 8: ga:0[0,3) gb[3,5) ga:1[5,7); ");
}

TEST_CASE("the format of a plan is recognized by its content rather than its name") {
  CHECK(format_plan(read("plan.json", table).plan) == worked_example);
  CHECK(format_plan(read("plan.csv", flags, stage_major_ranks).plan) == worked_example);
  CHECK(make_plan_source({"plan.txt", " \n{}"}, {}).format == PlanFormat::json);
  CHECK_THAT(error_in("plan.json", "nothing"), contains("plan.json:1:2: syntax error"));
  CHECK(error_in("net.yaml", "version: 1\n").starts_with("net.yaml: is not a plan: expected JSON"));
  CHECK(error_in("train.sh", flags) ==
        "train.sh: contains Megatron flags, which require a rank file (--ranks FILE)");
  CHECK(error_in("plan.csv", table, "ga:0\n") ==
        "ranks: a rank file requires Megatron flags, but plan.csv is a CSV");
  CHECK(error_in("big.sh", "--num-layers 7" + std::string(1 << 20, ' ')) ==
        "big.sh: is larger than 1048576 bytes");
}

TEST_CASE("a table may have columns in any order and tensor-parallel stages and micro-batches") {
  const Plan plan =
      read("plan.csv",
           "# of one pipeline that is deeper\n"
           "micro_batches, stage, pipeline, device, last_layer, first_layer\n"
           "12,0,0,gc:1,6,0\n12,0,0,gc:0,6,0\n4,0,1,ga:1,3,0\n4,0,1,ga:0,3,0\n\n4,1,1,gb:0,6,4\n")
          .plan;
  CHECK(format_plan(plan) == "12: gc:1 gc:0[0,7); 4: ga:1 ga:0[0,4) gb[4,7); ");
  CHECK(plan.tensor == 2);
  CHECK(plan.execution.schedule == Schedule::one_f_one_b);
  // 16 micro-batches over three pipelines are 5, 5 and 6. A stage without layers ends before it begins.
  CHECK(
      format_plan(read("plan.csv", header + "ga:0,0,0,0,6\nga:1,1,0,0,6\ngb,2,0,0,6\ngc:0,2,1,7,6\n").plan) ==
      "5: ga:0[0,7); 5: ga:1[0,7); 6: gb[0,7) gc:0[7,7); ");
}

TEST_CASE("all errors in a table are reported at once") {
  CHECK(error_in("plan.csv",
                 "device,pipeline,stage,first_layer,last_layer,micro_batches\n"
                 "gd:1,0,0,0,2,8\nga:0,0,1,4,4,8\ngc:0,0,2,5,7,7\n"
                 "gb,2,0,0,3,8\nga:0,2,1,3,4,8\nga:1,2,3,5,5,8\n") ==
        "plan.csv:2:1: topology hosts has no device `gd:1`; did you mean `ga:1`?\n"
        "plan.csv:4:14: 7 micro-batches, but pipeline 0 has 8 at plan.csv:2:6\n"
        "plan.csv:6:1: device ga:0 is used twice, first at plan.csv:3:1\n"
        "plan.csv:3:10: layer 3 in no stage of pipeline 0\n"
        "plan.csv:4:12: job seven has no layer 7: it has 7, from 0 to 6\n"
        "plan.csv:5:4: pipeline 2, but there is no pipeline 1: pipelines are numbered consecutively from 0\n"
        "plan.csv:6:10: layer 3 already in an earlier stage of pipeline 2 (last_layer is the last layer of a "
        "stage, "
        "not the one after it)\n"
        "plan.csv:7:8: stage 3, but pipeline 2 has no stage 2: stages are numbered consecutively from 0\n"
        "plan.csv:7:12: layer 6 of job seven in no stage of pipeline 2");
  // Values missing because of an unreadable line cause no further errors.
  CHECK(error_in("plan.csv", header + "ga:0,0,0,0,2\ngb,0,one,3,4\ngc:0,0,2\n,0,3,5,6\n") ==
        "plan.csv:3:6: stage: expected a whole number from 0 to 1000000000; found `one`\n"
        "plan.csv:4:1: expected 5 cells, as in the header; found 3\n"
        "plan.csv:5:1: topology hosts has no device ``; known: `ga:0`, `ga:1`, `gb`, `gc:0`, `gc:1`, `gc:2`");
  CHECK(error_in("plan.csv", header + "ga:0,0,0,0,6\nga:1,0,0,0,5\n") ==
        "plan.csv:3:10: 0 to 5, but stage 0 of pipeline 0 has 0 to 6 at plan.csv:2:8");
  CHECK(error_in("plan.csv", header + "ga:0,0,0,0,6\nga:1,0,1,7,2\n")
            .starts_with("plan.csv:3:10: 7 to 2 ends before it begins"));
  CHECK(error_in("plan.csv", header) == "plan.csv: there is no row below the header");
}

TEST_CASE("a header is checked against the known columns") {
  CHECK(error_in("plan.csv", "devise,pipeline,stage,first_layer,last_layer\n") ==
        "plan.csv:1:1: unknown column `devise`; did you mean `device`?");
  CHECK(error_in("plan.csv", "device,pipeline,stage,first_layer\n") ==
        "plan.csv:1:1: column `last_layer` is missing; expected "
        "`device,pipeline,stage,first_layer,last_layer[,micro_batches]`");
  CHECK(error_in("plan.csv", "device,device\n") == "plan.csv:1:8: duplicate column `device`");
  CHECK_FALSE(is_csv_plan("a,b,c\n"));
}

TEST_CASE("errors after the first twenty are only counted") {
  std::string text = header;
  for (int i = 0; i < 30; ++i) text += "x,0,0,0,6\n";
  const std::string error = error_in("plan.csv", text);
  CHECK(error.ends_with("\n… and 10 more errors"));
  CHECK(std::count(error.begin(), error.end(), '\n') == 20);
}

TEST_CASE("unusual but valid input is noted") {
  using Notes = std::vector<std::string>;
  CHECK(read("plan.csv", table).notes.empty());
  CHECK(read("plan.csv", header + "gc:1,0,0,0,6\ngb,0,0,0,6\n").notes ==
        Notes{"4 of 6 devices are in no pipeline: ga:0, ga:1, gc:0, gc:2",
              "tensor-parallel devices on different hosts: stage 0 of pipeline 0 on gc:1 and gb"});
  Job gpipe = seven_layers();
  gpipe.execution.schedule = Schedule::gpipe;
  CHECK(read("train.sh", flags + "--pipeline-model-paralel-size 4 --lr 1", stage_major_ranks, gpipe).notes ==
        Notes{"flags that are not compared with the job: `--nnodes`, "
              "`--pipeline-model-paralel-size` (did "
              "you mean `--pipeline-model-parallel-size`?), `--lr`",
              "--fp16 is not among the flags, but the plan assumes precision: fp16, as job seven says",
              "Megatron runs schedule 1f1b, but the plan uses gpipe as the job says"});
  const auto csv = make_plan_source({"plan.csv", table}, {});
  CHECK(read_any_plan(csv, three_hosts(), seven_layers(), false).notes ==
        Notes{"plan.csv does not specify a job; assuming the built-in seven (use --job FILE for another)"});
  const auto bare = make_plan_source(
      {"plan.json", R"({"pipelines": [{"stages": [{"layers": [0, 7], "devices": ["gb"]}]}]})"}, {});
  CHECK(read_any_plan(bare, three_hosts(), seven_layers(), false).notes ==
        Notes{"plan.json does not specify a job; assuming the built-in seven (use --job FILE for another)"});
  CHECK(read_any_plan(bare, three_hosts(), seven_layers(), true).notes.empty());
  const auto error = [&] {
    return error_message([&] { read_any_plan(bare, three_hosts(), default_job(), false); });
  };
  CHECK_THAT(error(),
             contains("are in no stage: job gpt3-xl has 24 layers\nplan.json does not specify a job"));
}
