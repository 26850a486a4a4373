#include "core/io/writers/plan_json.hpp"

#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <Eigen/Core>
#include <nlohmann/json.hpp>

#include "core/plan/compression.hpp"
#include "core/base/index.hpp"
#include "core/io/readers/plan_reader.hpp"
#include "core/io/text/pass_order.hpp"
#include "core/io/text/json_format.hpp"
#include "core/io/text/json_reader.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/open_settings.hpp"

using namespace dtfm;
using namespace dtfm::io;
using nlohmann::json;
using nlohmann::ordered_json;

namespace {

/// Returns devices a/0 … a/3 with links of 1 ms and 1 Gbps.
Topology four_devices() {
  Topology topology;
  topology.name = "four";
  topology.sites.resize(1);
  topology.sites[0].name = "a";
  topology.devices.resize(4);
  for (int i = 0; i < 4; ++i) {
    topology.devices[at(i)].id = "a/" + std::to_string(i);
    topology.devices[at(i)].host = i;
  }
  topology.links = MeasuredLinks{Eigen::MatrixXd::Constant(4, 4, 1e-3), Eigen::MatrixXd::Constant(4, 4, 1e9)};
  return topology;
}

Job small_job() {
  Job job;
  job.name = "small";
  job.model = Transformer{5, 8, 2, 16, 100};
  job.training.global_batch = 7;
  return job;
}

/// Returns stages {a/3, a/0} and {a/1, a/2}.
Placement two_by_two() {
  Placement placement(2, 2);
  placement.at(0, 0) = 3;
  placement.at(0, 1) = 0;
  placement.at(1, 0) = 1;
  placement.at(1, 1) = 2;
  return placement;
}

Plan parsed(const std::string& text) {
  return PlanFile(text, "plan.json").plan(four_devices(), small_job()).plan;
}

std::string error_in(const std::string& text) {
  return error_message([&] { parsed(text); });
}

/// Returns a plan file with these pipelines; each stage is written as in the specification.
std::string plan_of(const std::string& pipelines) {
  return R"({"pipelines": [)" + pipelines + "]}";
}
std::string pipeline_of(const std::string& stages) {
  return R"({"stages": [)" + stages + "]}";
}
std::string stage_of(const std::string& layers, const std::string& devices) {
  return R"({"layers": )" + layers + R"(, "devices": )" + devices + "}";
}

}  // namespace

TEST_CASE("a plan has the specified content in the specified order") {
  const Topology topology = four_devices();
  const Job job = small_job();
  const ordered_json plan =
      plan_json(topology, job, plan_from_placement(two_by_two(), job), Objective::comm_cost);
  std::vector<std::string> keys;
  for (const auto& item : plan.items()) keys.push_back(item.key());
  CHECK(keys == std::vector<std::string>{"schema", "topology", "job", "objective", "parallelism", "execution",
                                         "pipelines", "groups", "ranks", "unused"});
  CHECK(plan["topology"]["fingerprint"] == topology.fingerprint());
  CHECK(plan["objective"] == "comm-cost");
  CHECK(
      plan["pipelines"].dump() ==
      R"([{"micro_batches":3,"stages":[{"layers":[0,2],"devices":["a/3"]},{"layers":[2,5],"devices":["a/1"]}]},)"
      R"({"micro_batches":4,"stages":[{"layers":[0,2],"devices":["a/0"]},{"layers":[2,5],"devices":["a/2"]}]}])");
  CHECK(plan["groups"].dump() == R"([["a/3","a/0"],["a/1","a/2"]])");
  CHECK(plan["ranks"].dump() ==
        R"({"pipeline_major":["a/3","a/1","a/0","a/2"],"stage_major":["a/3","a/0","a/1","a/2"]})");
  CHECK(plan["unused"].empty());
  CHECK(format_json(plan).find("{\"layers\": [0, 2], \"devices\": [\"a/3\"]}, ") != std::string::npos);
}

TEST_CASE("unused devices are listed") {
  Plan plan{1, {.schedule = Schedule::gpipe, .gradient_sync = GradientSync::ring}, {{7, {{{0, 5}, {2}}}}}};
  CHECK(plan_json(four_devices(), small_job(), plan)["unused"].dump() == R"(["a/0","a/1","a/3"])");
}

TEST_CASE("a written plan reads back as the same plan") {
  const Job job = small_job();
  const Topology topology = four_devices();
  const std::string text = plan_json(topology, job, plan_from_placement(two_by_two(), job)).dump();
  const Plan plan = PlanFile(text, "plan.json").plan(topology, job).plan;
  CHECK(plan_json(topology, job, plan).dump() == text);
  CHECK(balanced_placement(plan, topology, "plan.json") == two_by_two());
}

TEST_CASE("a written period of checkpoints reads back, and must be above zero") {
  const Job job = small_job();
  const Topology topology = four_devices();
  const auto written = [&](std::optional<double> period_s) {
    return plan_json(topology, job, plan_from_placement(two_by_two(), job), Objective::iteration_time,
                     period_s);
  };
  CHECK_FALSE(written({}).contains("recovery"));
  const auto period_of = [&](const std::string& text) {
    return PlanFile(text, "plan.json").plan(topology, job).checkpoint_period_s;
  };
  CHECK(period_of(written({}).dump()) == std::nullopt);
  CHECK(period_of(written(738.1).dump()) == 738.1);
  for (const auto& [value, problem] :
       {std::pair{"0", "must be above zero"},
        std::pair{"-1", "expected a number from 0 to 1e+12; found `-1`"},
        std::pair{"1e13", "expected a number from 0 to 1e+12; found `1e13`"},
        std::pair{"\"1 h\"", "expected a number from 0 to 1e+12; found `\"1 h\"`"}}) {
    CAPTURE(value);
    ordered_json file = written({});
    file["recovery"]["checkpoint_period_s"] = json::parse(value);
    const std::string message = "plan.json: /recovery/checkpoint_period_s: ";
    CHECK(error_in(file.dump()).substr(0, message.size()) == message);
    CHECK(error_message([&] { PlanFile(file.dump(), "plan.json").standalone_plan(job); }) ==
          error_in(file.dump()));
    CHECK(error_in(file.dump()).find(std::string(problem).substr(0, 20)) != std::string::npos);
  }
  ordered_json file = written(1.0);
  std::string text = file.dump();
  text.replace(text.find("\"checkpoint_period_s\":1.0") + 22, 3, "NaN");
  CHECK(error_in(text).find("plan.json:1:") == 0);
}

TEST_CASE("the job of a plan file is read from it") {
  const std::string text =
      plan_json(four_devices(), small_job(), plan_from_placement(two_by_two(), small_job())).dump();
  const Job job = PlanFile(text, "plan.json").job().value();
  CHECK(job.name == "small");
  CHECK(job.training.global_batch == 7);
  CHECK(std::get<Transformer>(job.model).vocabulary == 100);
  CHECK(PlanFile(R"({"a": {"job": 1}, "job": {"version": 1, "name": "n", "model": {"kind": "transformer",
      "layers": 1, "hidden": 2, "heads": 1, "sequence": 3, "vocabulary": 4}, "training": {"global_batch": 5}},
      "b": ["job", {}]})",
                 "plan.json")
            .job()
            .value()
            .training.global_batch == 5);
  const auto error = [](const std::string& plan) {
    return error_message([&] { PlanFile(plan, "plan.json").job(); });
  };
  CHECK_FALSE(PlanFile("{\"pipelines\": []}", "plan.json").job().has_value());
  json other = json::parse(text);
  other["parallelism"]["schedule"] = "1f1b";
  CHECK_THAT(error(other.dump()), contains("/execution/schedule is `gpipe`"));
  other.erase("execution");  // as older files
  CHECK_THAT(error(other.dump()), contains("/job/parallelism/schedule is `gpipe`"));
  json old = json::parse(text);
  old["job"]["parallelism"]["alike"] = true;
  CHECK_THAT(error(old.dump()), contains("key `alike` was renamed to `uniform_pipelines`"));
  CHECK(error("{\n \"job\":\n  {\"version\": 1, \"nam\": \"x\"}, \"b\": 1}") ==
        "plan.json: /job/nam: unknown key `nam`; did you mean `name`?");
  CHECK_THAT(error("{\"job\": 7}"), contains("plan.json: /job: "));
  CHECK_THAT(error("{\"job\": " + std::string(40, '[') + std::string(40, ']') + "}"),
             contains("/0/0: nested more than 32 levels deep"));
  CHECK_THAT(error("{\"job\": "), contains("plan.json:1:8: syntax error"));
}

namespace {

/// Returns a plan of the small job with a value other than the default for every setting but the chunks.
Plan configured_plan() {
  Plan plan = plan_from_placement(two_by_two(), small_job());
  ExecutionConfig& execution = plan.execution;
  execution.schedule = Schedule::one_f_one_b;
  execution.flush = 2;
  execution.gradient_sync = GradientSync::ring;
  execution.overlap = true;
  execution.recomputation = Recomputation::full;
  execution.compression = {0.25, 0.5, BitsPerSecond(8e9), {}, {}, BitsPerSecond(1e9)};
  return plan;
}

/// Returns the small job with the settings of the plan.
Job configured_job() {
  Job job = small_job();
  job.execution = configured_plan().execution;
  return job;
}

json configured_file() {
  return plan_json(four_devices(), configured_job(), configured_plan());
}

Plan parsed_with(const json& file, const Job& job) {
  return PlanFile(file.dump(), "plan.json").plan(four_devices(), job).plan;
}

}  // namespace

TEST_CASE("the execution of a plan is written with the keys of jobs and read back") {
  Job job = configured_job();
  Plan plan = configured_plan();
  const ordered_json compression = job_json(job)["compression"];
  CHECK(execution_json(plan.execution).dump() ==
        R"({"micro_batch":1,"schedule":"1f1b","flush":2,"gradient_sync":"ring","overlap":true,)"
        R"("recompute":"full","compression":)" +
            compression.dump() + "}");
  CHECK(parsed_with(configured_file(), job) == plan);
  plan.execution.schedule = Schedule::interleaved;
  plan.execution.chunks = 2;
  plan.execution.flush.reset();
  plan.execution.compression = {};
  plan.execution.compression.activation_preset = CompressionPreset{CompressionMethod::quantize_8_bit};
  job.execution = plan.execution;
  compress_activations(job, *plan.execution.compression.activation_preset);
  plan.execution = job.execution;
  CHECK(parsed_with(plan_json(four_devices(), job, plan), job) == plan);
}

TEST_CASE("the warm-ups of stages are written and read back") {
  Job job = small_job();
  job.execution.schedule = Schedule::eager_one_f_one_b;
  Plan plan = plan_from_placement(two_by_two(), job);
  CHECK(parsed_with(plan_json(four_devices(), job, plan), job) == plan);
  for (Pipeline& pipeline : plan.pipelines) {
    pipeline.stages[0].warm_up = 3;
    pipeline.stages[1].warm_up = 0;
  }
  json file = plan_json(four_devices(), job, plan);
  CHECK(parsed_with(file, job) == plan);
  const auto check_refused = [&](const std::string& message) {
    CHECK(error_message([&] { parsed_with(file, job); }) == "plan.json: /pipelines/1/stages/1" + message);
  };
  json& second = file["pipelines"][1]["stages"][1];
  second["warm_up"] = 3;
  check_refused(": `warm_up` is 3, but must be less than the 3 of the stage before");
  second["warm_up"] = -1;
  check_refused("/warm_up: expected a whole number from 0 to 1000000000; found the number -1");
  second.erase("warm_up");
  check_refused(": either all stages of a plan have a `warm_up`, or none");
  job.execution.schedule = plan.execution.schedule = Schedule::one_f_one_b;
  json other = json::parse(plan_json(four_devices(), job, plan).dump());
  CHECK_FALSE(other["pipelines"][0]["stages"][0].contains("warm_up"));
  other["pipelines"][0]["stages"][0]["warm_up"] = 3;
  CHECK(error_message([&] { parsed_with(other, job); }) ==
        "plan.json: /pipelines/0/stages/0/warm_up: requires schedule `eager-1f1b`");
}

TEST_CASE("the passes of stages are written and read back") {
  Job job = small_job();
  job.execution.schedule = Schedule::zero_bubble_greedy;
  Plan plan = plan_from_placement(two_by_two(), job);
  CHECK(parsed_with(plan_json(four_devices(), job, plan), job) == plan);
  for (Pipeline& pipeline : plan.pipelines) {
    pipeline.stages[0].passes = parse_passes("F*2 (IWF)*3 (IW)*2", 100);
    pipeline.stages[1].passes = parse_passes("(FIW)*5", 100);
  }
  json file = plan_json(four_devices(), job, plan);
  CHECK(file["pipelines"][0]["stages"][0]["passes"] == "F*2 (IWF)*3 (IW)*2");
  CHECK(parsed_with(file, job) == plan);
  const auto check_refused = [&](const std::string& message) {
    CHECK(error_message([&] { parsed_with(file, job); }) == "plan.json: /pipelines/1/stages" + message);
  };
  json& second = file["pipelines"][1]["stages"][1];
  second["passes"] = "(FIW)*4 F I";
  check_refused("/1: `passes` has 4 weight gradients, but the pipeline's first stage has 5 forwards");
  second["passes"] = "F*5 (IW)*5";
  check_refused(": with these `passes`, the stages of the pipeline deadlock");
  second["passes"] = "F*4 X";
  check_refused("/1/passes: character 5: expected F, I, W or a group such as `(FIW)*2`");
  second["passes"] = "";
  check_refused("/1/passes: expected at least one pass");
  second["passes"] = "F*999999999";
  check_refused("/1/passes: character 12: more than 19999955 passes");
  second.erase("passes");
  check_refused("/1: either all stages of a plan have `passes`, or none");
  job.execution.schedule = plan.execution.schedule = Schedule::zero_bubble_h1;
  json other = json::parse(plan_json(four_devices(), job, plan).dump());
  CHECK_FALSE(other["pipelines"][0]["stages"][0].contains("passes"));
  other["pipelines"][0]["stages"][0]["passes"] = "F";
  CHECK(error_message([&] { parsed_with(other, job); }) ==
        "plan.json: /pipelines/0/stages/0/passes: requires schedule `zb-greedy`");
}

TEST_CASE("the recomputed layers of stages are written and read back") {
  Job job = small_job();
  job.execution.recomputation = Recomputation::as_needed;
  Plan plan = plan_from_placement(two_by_two(), job);
  CHECK(parsed_with(plan_json(four_devices(), job, plan), job) == plan);
  for (Pipeline& pipeline : plan.pipelines) {
    pipeline.stages[0].recompute_layers = 2;
    pipeline.stages[1].recompute_layers = 0;
  }
  json file = plan_json(four_devices(), job, plan);
  CHECK(file["pipelines"][0]["stages"][0]["recompute_layers"] == 2);
  CHECK(parsed_with(file, job) == plan);
  const auto check_refused = [&](const std::string& message) {
    CHECK(error_message([&] { parsed_with(file, job); }) == "plan.json: /pipelines/1/stages/1" + message);
  };
  json& second = file["pipelines"][1]["stages"][1];
  second["recompute_layers"] = 4;
  check_refused("/recompute_layers: expected a whole number from 0 to 3; found the number 4");
  second.erase("recompute_layers");
  check_refused(": either all stages of a plan have `recompute_layers`, or none");
  job.execution.recomputation = plan.execution.recomputation = Recomputation::full;
  json other = json::parse(plan_json(four_devices(), job, plan).dump());
  CHECK_FALSE(other["pipelines"][0]["stages"][0].contains("recompute_layers"));
  other["pipelines"][0]["stages"][0]["recompute_layers"] = 1;
  CHECK(error_message([&] { parsed_with(other, job); }) ==
        "plan.json: /pipelines/0/stages/0/recompute_layers: requires `recompute: as-needed`");
}

TEST_CASE("the offloaded layers of stages are written under a name of their own and read back") {
  Job job = small_job();
  job.execution.recomputation = Recomputation::offload;
  Plan plan = plan_from_placement(two_by_two(), job);
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) stage.recompute_layers = 1;
  json file = plan_json(four_devices(), job, plan);
  json& first = file["pipelines"][0]["stages"][0];
  CHECK(first["offload_layers"] == 1);
  CHECK_FALSE(first.contains("recompute_layers"));
  CHECK(parsed_with(file, job) == plan);
  first["recompute_layers"] = 1;
  CHECK(error_message([&] { parsed_with(file, job); }) ==
        "plan.json: /pipelines/0/stages/0/recompute_layers: requires `recompute: as-needed`");
  first.erase("recompute_layers");
  first.erase("offload_layers");
  CHECK(error_message([&] { parsed_with(file, job); }) ==
        "plan.json: /pipelines/0/stages/1: either all stages of a plan have `offload_layers`, or none");
}

TEST_CASE("the layers of virtual stages are written unless they are split evenly, and read back") {
  Job job = small_job();
  job.execution.schedule = Schedule::interleaved;
  job.execution.chunks = 2;
  Plan plan = plan_from_placement(two_by_two(), job);  // 2 and 3 layers
  const json even = json::parse(plan_json(four_devices(), job, plan).dump());
  CHECK_FALSE(even["pipelines"][0]["stages"][0].contains("virtual_layers"));
  plan.pipelines[0].stages[0].virtual_layers = {0, 2};
  plan.pipelines[1].stages[1].virtual_layers = {2, 1};  // an even split would be 1 and 2
  json file = json::parse(plan_json(four_devices(), job, plan).dump());
  CHECK(file["pipelines"][1]["stages"][1]["virtual_layers"] == json{2, 1});
  CHECK(parsed_with(file, job) == plan);
  CHECK(PlanFile(file.dump(), "plan.json").standalone_plan(job).plan.pipelines[1].stages[1].virtual_layers ==
        std::vector{2, 1});
  json& list = file["pipelines"][1]["stages"][1]["virtual_layers"];
  list = {1, 2};  // the same as without the key
  plan.pipelines[1].stages[1].virtual_layers.clear();
  CHECK(parsed_with(file, job) == plan);
  const auto check_refused = [&](const json& value, const std::string& message) {
    list = value;
    CHECK(error_message([&] { parsed_with(file, job); }) ==
          "plan.json: /pipelines/1/stages/1/virtual_layers" + message);
  };
  check_refused({1, 1}, ": the sum is 2, but the stage has 3 layers");
  check_refused({4, -1}, "/1: expected a whole number from 0 to 1000000000; found the number -1");
  check_refused({1, 1, 1}, ": expected the number of layers of each of 2 chunks; found 3");
  check_refused(json::array(), ": expected the number of layers of each of 2 chunks; found 0");
  check_refused(3, ": expected an array of numbers of layers; found the number 3");
  list = {2, 1};
  const json pipelines = {{"pipelines", file["pipelines"]}};
  CHECK(error_message([&] { parsed_with(pipelines, small_job()); }) ==
        "plan.json: /pipelines/0/stages/0/virtual_layers: requires schedule `interleaved`");
}

TEST_CASE("the optimizer sharding of a plan is written and read back") {
  Job job = configured_job();
  Plan plan = configured_plan();
  job.execution.optimizer_sharding = plan.execution.optimizer_sharding = OptimizerSharding::zero1;
  json file = json::parse(plan_json(four_devices(), job, plan).dump());
  CHECK(file["execution"]["optimizer_sharding"] == "zero1");
  CHECK(file["parallelism"]["optimizer_sharding"] == "zero1");
  CHECK(file["job"]["parallelism"]["optimizer_sharding"] == "zero1");
  CHECK(parsed_with(file, job) == plan);
  CHECK_THAT(error_message([&] { parsed_with(file, configured_job()); }),
             contains("optimizer_sharding zero1, but the job's parallelism.optimizer_sharding is none"));
  file["parallelism"]["optimizer_sharding"] = "zero2";
  CHECK_THAT(error_message([&] { parsed_with(file, job); }), contains("`zero2`"));
  file.erase("parallelism");
  file["execution"].erase("optimizer_sharding");
  CHECK_THAT(error_message([&] { parsed_with(file, job); }),
             contains("optimizer_sharding none, but the job's parallelism.optimizer_sharding is zero1"));
}

TEST_CASE("a plan of pipelines alone takes the settings of the job") {
  json file = configured_file();
  const json pipelines = {{"pipelines", file["pipelines"]}};
  CHECK(parsed_with(pipelines, small_job()).execution == small_job().execution);
  CHECK(parsed_with(pipelines, configured_job()) == configured_plan());
}

TEST_CASE("older plans without execution have the settings of their job and parallelism") {
  json file = configured_file();
  file.erase("execution");
  Job open = small_job();
  open.automatic = all_open_settings();
  open.execution.overlap = true;
  open.execution.compression.throughput = BitsPerSecond(8e9);
  open.execution.compression.bandwidth_threshold = BitsPerSecond(1e9);
  CHECK(parsed_with(file, open) == configured_plan());
  CHECK(PlanFile(file.dump(), "plan.json").job()->execution == configured_plan().execution);
  file.erase("job");
  Plan expected = configured_plan();
  expected.execution = open.execution;
  expected.execution.schedule = Schedule::one_f_one_b;
  expected.execution.gradient_sync = GradientSync::ring;
  CHECK(parsed_with(file, open) == expected);
}

TEST_CASE("the undecided settings are those that plan file and job both leave open") {
  json file = configured_file();
  Job open = configured_job();
  open.automatic = all_open_settings();
  const auto undecided = [&] {
    return PlanFile(file.dump(), "plan.json").plan(four_devices(), open).undecided;
  };
  CHECK(undecided() == SettingSet{});
  file.erase("execution");
  CHECK(undecided() == SettingSet{});
  file["job"]["parallelism"]["schedule"] = "auto";
  CHECK(undecided() == SettingSet{});  // `parallelism` decides it
  file.erase("parallelism");
  CHECK(undecided() == SettingSet{Setting::schedule});
  file.erase("job");
  CHECK(undecided() == open.automatic);
  open.automatic = {Setting::micro_batch};
  CHECK(undecided() == SettingSet{Setting::micro_batch});
}

TEST_CASE("an unknown schedule in an older plan is answered with the similar one") {
  json file = configured_file();
  file.erase("execution");
  file["parallelism"]["schedule"] = "1f2b";
  const std::string message =
      error_message([&] { PlanFile(file.dump(), "plan.json").plan(four_devices(), configured_job()); });
  CHECK_THAT(message, contains("unknown schedule `1f2b`; did you mean `1f1b`?"));
}

TEST_CASE("the execution of a plan counts rather than the settings in its job") {
  json file = configured_file();
  file["execution"]["micro_batch"] = 7;
  CHECK(PlanFile(file.dump(), "plan.json").job()->execution.micro_batch == 7);
  file["execution"]["micro_batch"] = 2;
  CHECK_THAT(error_message([&] { PlanFile(file.dump(), "plan.json").job(); }),
             contains("2 does not divide global_batch 7"));
  file["execution"]["micro_batch"] = "auto";
  CHECK_THAT(error_message([&] { PlanFile(file.dump(), "plan.json").job(); }),
             contains("/execution/micro_batch: `micro_batch`: is `auto`; a plan needs a single value"));
  file["execution"]["micro_batch"] = {1, 7};
  CHECK_THAT(error_message([&] { PlanFile(file.dump(), "plan.json").job(); }),
             contains("/execution/micro_batch: `micro_batch`: is a list; a plan needs a single value"));
  file["execution"]["micro_batch"] = 1;
  file["execution"]["compression"]["gradients"] = "auto";
  CHECK_THAT(error_message([&] { PlanFile(file.dump(), "plan.json").job(); }),
             contains("`gradients`: is `auto`; a plan needs a single value"));
}

TEST_CASE("a setting that contradicts the given job is refused at its place in the file") {
  const std::string text = R"({"execution": {"micro_batch": 1,
  "schedule": "1f1b", "compression": {"activations": 1, "gradients": 0.5}},
 "pipelines": [{"stages": [{"layers": [0, 5], "devices": ["a/0"]}]}]})";
  CHECK(error_in(text) ==
        "plan.json: /execution/schedule: schedule 1f1b, but the job's parallelism.schedule is gpipe; set the "
        "job's to 1f1b or auto, "
        "or use the job that the plan was made for");
  Job job = small_job();
  job.automatic[Setting::schedule] = true;
  const auto parse = [&] { return PlanFile(text, "plan.json").plan(four_devices(), job).plan; };
  CHECK_THAT(
      error_message(parse),
      contains("plan.json: /execution/compression/gradients: compression.gradients 0.5, but the job's "));
  job.automatic[Setting::gradients] = true;
  CHECK(parse().execution.schedule == Schedule::one_f_one_b);
  CHECK_NOTHROW(PlanFile(text, "plan.json").standalone_plan(small_job()));
}

TEST_CASE("numbers are the shortest that read back the same and are never infinite") {
  CHECK(format_json({0.1, 2.0, 1e300, 5e-324, -0.0, 471249222.75543213, 7}) ==
        "[0.1, 2.0, 1e+300, 5e-324, -0.0, 471249222.7554321, 7]\n");
  CHECK_THROWS_AS(format_json(1 / 0.0), BrokenInvariant);
}

TEST_CASE("long lists fill lines and long objects have one key per line") {
  const std::string text = format_json({{"list", std::vector<int>(60, 12)}, {"name", std::string(95, 'n')}});
  CHECK(text.starts_with("{\n \"list\": [\n  12, 12,"));
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    CHECK(text.find('\n', begin) - begin <= 110);
  CHECK(json::parse(text)["list"].size() == 60);
}

TEST_CASE("only pipelines are required and micro-batches are distributed evenly") {
  const Plan plan = parsed(plan_of(pipeline_of(stage_of("[0, 5]", R"(["a/0", "a/1"])")) + "," +
                                   pipeline_of(stage_of("[0, 5]", R"(["a/2", "a/3"])"))));
  CHECK(plan.tensor == 2);
  CHECK(plan.pipelines[0].micro_batches == 3);
  CHECK(plan.pipelines[1].micro_batches == 4);
}

TEST_CASE("a plan can be read without its topology by device names") {
  const std::string stages =
      R"("stages": [{"layers": [0, 2], "devices": ["x", "b/1"]}, {"layers": [2, 5], "devices": )";
  const auto named = [&](const std::string& rest) {
    return PlanFile(R"({"topology": {"name": "gone", "fingerprint": "0"}, "pipelines": [{)" + stages + rest,
                    "plan.json")
        .standalone_plan(small_job());
  };
  const StandalonePlan plan = named(R"(["y", "a/0"]}]}], "unused": ["z"]})");
  CHECK(plan.ids == std::vector<std::string>{"x", "b/1", "y", "a/0", "z"});
  REQUIRE(plan.plan.pipelines.size() == 1);
  CHECK(plan.plan.pipelines[0].stages[1] == Stage{{2, 5}, {2, 3}});
  CHECK(plan.plan.tensor == 2);
  CHECK(error_message([&] { named(R"(["y", "x"]}]}]})"); }) ==
        "plan.json: /pipelines/0/stages/1/devices/1: device x is used twice, first at "
        "/pipelines/0/stages/0/devices/0");
  CHECK(error_message([&] { named(R"(["y", "z"]}]}], "unused": ["z"]})"); }) ==
        "plan.json: /unused/0: device z is used at /pipelines/0/stages/1/devices/1");
  CHECK(error_message([&] { named(R"(7}]}]})"); }) != "no error");
}

TEST_CASE("stages may differ in their number of devices and tensor is the maximum") {
  const Plan plan = parsed(
      plan_of(pipeline_of(stage_of("[0, 2]", R"(["a/3"])") + "," + stage_of("[2, 5]", R"(["a/1", "a/0"])")) +
              "," + pipeline_of(stage_of("[0, 5]", R"(["a/2"])"))));
  const ordered_json written = plan_json(four_devices(), small_job(), plan);
  CHECK(parsed(written.dump()) == plan);
  CHECK(written["parallelism"]["tensor"] == 2);
  CHECK(written["groups"].dump() == R"([["a/3","a/2"],["a/1","a/0"]])");
  CHECK(written["ranks"].dump() ==
        R"({"pipeline_major":["a/3","a/1","a/0","a/2"],"stage_major":["a/3","a/2","a/1","a/0"]})");
}

TEST_CASE("invalid JSON is reported with line and column") {
  CHECK(
      error_in("{\n \"a\": tru\n}") ==
      "plan.json:2:10: syntax error while parsing value - invalid literal; last read: '\"a\": tru<U+000A>'");
  CHECK(error_in("") ==
        "plan.json:1:1: syntax error while parsing value - unexpected end of input; expected '[', '{', "
        "or a literal");
  CHECK(error_in("{\"a\": 1,\n  \"a\\\"\": 2,\n  \"a\": 3}") == "plan.json:3:3: duplicate key `a`");
  CHECK(error_in("{\"x\\\\\": 1, \"x\\\\\": 2}") == "plan.json:1:12: duplicate key `x\\`");
  CHECK(error_in(std::string(100, '[')) == "plan.json:1:65: more than 64 levels deep");
  CHECK(error_in("[1e999]") == "plan.json:1:7: number overflow parsing '1e999'");
}

// If each object were compared with those before it, this would take minutes.
TEST_CASE("a million objects in an array are read in time proportional to their number") {
  constexpr int count = 1'000'000, max_s = 60;
  std::string text = "[{}";
  for (int i = 1; i < count; ++i) text += ",{}";
  const std::clock_t begin = std::clock();
  CHECK(parse_json(text + "]", "many.json").size() == count);
  CHECK(std::clock() - begin < std::clock_t{max_s} * CLOCKS_PER_SEC);
}

TEST_CASE("an invalid plan is reported with the position in it") {
  const std::string whole = "[0, 5]", a0 = R"(["a/0"])";
  const auto one = [](const std::string& stages) { return plan_of(pipeline_of(stages)); };
  const std::string fine = one(stage_of(whole, a0));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[]", "/: expected an object; found an array"},
      {"{}", "/: missing key `pipelines`"},
      {plan_of(""), "/pipelines: there is no pipeline"},
      {plan_of("3"), "/pipelines/0: expected an object; found the number 3"},
      {one(""), "/pipelines/0/stages: there is no stage"},
      {one(stage_of(whole, "[]")), "/pipelines/0/stages/0/devices: there is no device"},
      {one(stage_of(whole, R"("a/0")")),
       "/pipelines/0/stages/0/devices: expected an array of devices; found the string `a/0`"},
      {one(stage_of(whole, "[7]")), "/pipelines/0/stages/0/devices/0: expected a string; found the number 7"},
      {one(stage_of(whole, R"(["aa/0"])")),
       "/pipelines/0/stages/0/devices/0: topology four has no device `aa/0`; did you mean `a/0`?"},
      {one(stage_of("[0, 2]", a0) + "," + stage_of("[2, 5]", a0)),
       "/pipelines/0/stages/1/devices/0: device a/0 is used twice, first at /pipelines/0/stages/0/devices/0"},
      {one(stage_of("[0]", a0)),
       "/pipelines/0/stages/0/layers: expected two numbers, the first layer and the one after the last; "
       "found 1"},
      {one(stage_of("[0, 2.5]", a0)),
       "/pipelines/0/stages/0/layers/1: expected a whole number from 0 to 1000000000; found the number 2.5"},
      {one(stage_of("[-1, 2]", a0)),
       "/pipelines/0/stages/0/layers/0: expected a whole number from 0 to 1000000000; found the number -1"},
      {one(stage_of("[0, 18446744073709551615]", a0)),
       "/pipelines/0/stages/0/layers/1: expected a whole number from 0 "
       "to 1000000000; found the number 18446744073709551615"},
      {one(stage_of("[3, 2]", a0)), "/pipelines/0/stages/0/layers: [3, 2] ends before it begins"},
      {one(stage_of("[0, 6]", a0)), "/pipelines/0/stages/0/layers: [0, 6], but job small has 5 layers"},
      {one(stage_of("[1, 5]", a0)), "/pipelines/0/stages/0/layers: layer 0 is in no stage"},
      {one(stage_of("[0, 2]", a0) + "," + stage_of("[4, 5]", R"(["a/1"])")),
       "/pipelines/0/stages/1/layers: layers 2 … 3 are in no stage"},
      {one(stage_of("[0, 3]", a0) + "," + stage_of("[2, 5]", R"(["a/1"])")),
       "/pipelines/0/stages/1/layers: layer 2 is already in an earlier stage"},
      {one(stage_of("[0, 4]", a0)), "/pipelines/0/stages: layer 4 is in no stage: job small has 5 layers"},
      {plan_of(pipeline_of(stage_of(whole, a0)) + R"(,{"micro_batches": 3, "stages": []})"),
       "/pipelines/1/stages: there is no stage"},
      {R"({"schema": "dtfm-sim/1", )" + fine.substr(1),
       "/schema: expected `dtfm-plan/1`; found `dtfm-sim/1`"},
      {R"({"topology": {"name": "five", "fingerprint": "0123"}, )" + fine.substr(1),
       "/topology/fingerprint: the plan is for topology `five` with fingerprint `0123`; this is `four` with "
       "fingerprint `" +
           four_devices().fingerprint() + "`"},
  };
  for (const auto& [text, message] : cases) CHECK(error_in(text) == "plan.json: " + message);
}

TEST_CASE("derived values must agree with the pipelines") {
  const auto given = [](const std::string& sections) {
    return plan_of(pipeline_of(stage_of("[0, 2]", R"(["a/3"])") + "," + stage_of("[2, 5]", R"(["a/1"])")) +
                   "," + pipeline_of(stage_of("[0, 5]", R"(["a/0"])")))
        .insert(1, sections + ", ");
  };
  CHECK_NOTHROW(parsed(given(
      R"("parallelism": {"pipeline": 2, "data": 2, "tensor": 1}, "groups": [["a/0", "a/3"], ["a/1"]], )"
      R"("ranks": {"pipeline_major": ["a/3", "a/1", "a/0"], "stage_major": ["a/3", "a/0", "a/1"]}, "unused": ["a/2"])")));
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"("parallelism": {"pipeline": 3})", "/parallelism/pipeline: 3, but the pipelines make it 2"},
      {R"("parallelism": {"data": 1})", "/parallelism/data: 1, but the pipelines make it 2"},
      {R"("parallelism": {"tensor": 2})", "/parallelism/tensor: 2, but the pipelines make it 1"},
      {R"("groups": [["a/0", "a/3"]])", "/groups: expected one group for each of 2 stages; found 1"},
      {R"("groups": [["a/0", "a/3"], []])",
       "/groups/1: expected as many devices as in the pipelines, 1; found 0"},
      {R"("groups": [["a/0", "a/1"], ["a/3"]])",
       "/groups/0: device a/3 is missing, although it is in stage 0 of the pipelines"},
      {R"("groups": [["a/3", "a/3"], ["a/1"]])",
       "/groups/0: device a/0 is missing, although it is in stage 0 of the pipelines"},
      {R"("groups": [["a/3", "a/9"], ["a/1"]])",
       "/groups/0/1: topology four has no device `a/9`; did you mean `a/0`?"},
      {R"("ranks": {"pipeline_major": ["a/3", "a/0", "a/1"]})",
       "/ranks/pipeline_major/1: a/0, but the pipelines make it a/1"},
      {R"("ranks": {"stage_major": ["a/3", "a/1", "a/0"]})",
       "/ranks/stage_major/1: a/1, but the pipelines make it a/0"},
      {R"("ranks": {"stage_major": ["a/3"]})",
       "/ranks/stage_major: expected as many devices as in the pipelines, 3; found 1"},
      {R"("unused": ["a/2", "a/1"])", "/unused/1: device a/1 is used at /pipelines/0/stages/1/devices/0"},
  };
  for (const auto& [sections, message] : cases) CHECK(error_in(given(sections)) == "plan.json: " + message);
}

TEST_CASE("micro-batches are given for every pipeline or for none") {
  CHECK(error_in(plan_of(pipeline_of(stage_of("[0, 5]", R"(["a/0"])")) +
                         R"(,{"micro_batches": 3, "stages": [{"layers": [0, 5], "devices": ["a/1"]}]})")) ==
        "plan.json: /pipelines/1: micro_batches must be given for every pipeline or for none");
}

TEST_CASE("comm-cost accepts balanced plans only") {
  const auto error = [](const std::string& pipelines) {
    return error_message(
        [&] { balanced_placement(parsed(plan_of(pipelines)), four_devices(), "plan.json"); });
  };
  const std::string two_stages =
      pipeline_of(stage_of("[0, 2]", R"(["a/0"])") + "," + stage_of("[2, 5]", R"(["a/1"])"));
  CHECK(
      error(two_stages + "," + pipeline_of(stage_of("[0, 5]", R"(["a/2"])"))) ==
      "plan.json: /pipelines/1: 1 stage where /pipelines/0 has 2; comm-cost requires equally many stages in "
      "all pipelines");
  CHECK(error(pipeline_of(stage_of("[0, 5]", R"(["a/0", "a/1"])"))) ==
        "plan.json: /pipelines/0/stages/0/devices: 2 devices; comm-cost supports only one device per stage");
  CHECK(error(two_stages + "," +
              pipeline_of(stage_of("[0, 3]", R"(["a/2"])") + "," + stage_of("[3, 5]", R"(["a/3"])"))) ==
        "plan.json: /pipelines/1/stages/0/layers: [0, 3] where /pipelines/0 has [0, 2]; comm-cost requires "
        "the same layers in this stage of all pipelines");
  CHECK(error(two_stages) ==
        "plan.json: /pipelines: comm-cost requires every device, but 2 of 4 are in no pipeline: a/2, a/3");
}
