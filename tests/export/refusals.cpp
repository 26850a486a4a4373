// What a target cannot express is refused: the fact, and a way out that is true.
#include "planner/core/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/handed_over.hpp"

namespace dtfm {
using namespace exporter;
using namespace io;
namespace {

/// Two pipelines of one device a stage, on machines a0, a1, … and b0, b1, …; the layers of their stages.
Handover two_pipelines(std::vector<int> first, std::vector<int> second, int layers = 7) {
  Handover handover;
  handover.job.name = "two";
  handover.job.model = Transformer{layers, 1024, 16, 512, 50257};
  handover.job.training = {16, 1};
  handover.job.parallelism.schedule = "1f1b";
  int device = 0;
  for (const auto& counts : {first, second}) {
    Pipeline pipeline{8, {}};
    int begin = 0;
    for (const int count : counts) {
      pipeline.stages.push_back({{begin, begin + count}, {device}});
      begin += count;
      const std::string host = fmt::format("m{}", device++);
      handover.places.push_back({host, host, 0});
    }
    handover.plan.pipelines.push_back(pipeline);
  }
  return handover;
}

void seat(Handover& handover, RankOrder order = RankOrder::stage_major) {
  handover.order = order;
  handover.seats = seats_of(handover.plan, handover.job, order);
}

std::string refusal(const std::string& name, Handover handover) {
  const Exporter* target = &exporter_named(name);
  seat(handover, common_order({&target, 1}, {}));
  return error_of([&] { exported(handover, {&target, 1}); });
}

const std::vector<std::string> common_layout = {"megatron",     "torchtitan", "torchtitan-py", "deepspeed",
                                                "deepspeed-py", "dtfm",       "varuna"};

TEST_CASE("Pipelines that split layers differently") {
  const Handover handover = two_pipelines({3, 2, 2}, {2, 3, 2});
  CHECK(refusal("megatron", handover) ==
        "megatron: pipelines 0 and 1 split layers differently (3/2/2 vs 2/3/2); megatron has one layout for "
        "all "
        "replicas; use --to flashflex, or plan with --alike");
  for (const std::string& name : common_layout)
    CHECK_THAT(refusal(name, handover), contains("split layers differently"));
  CHECK(refusal("flashflex", handover) == "no error");
  CHECK(refusal("petals", handover) == "no error");
}

TEST_CASE("Pipelines of unlike depth") {
  const Handover handover = two_pipelines({3, 2, 2}, {3, 4});
  for (const std::string& name : common_layout) {
    CHECK_THAT(refusal(name, handover), contains("pipelines 0 and 1 have 3 and 2 stages"));
    CHECK_THAT(refusal(name, handover), contains("needs the same data-parallel degree in every stage"));
  }
  CHECK(refusal("flashflex", handover) == "no error");
}

TEST_CASE("Unlike tensor degrees, and any where there is none") {
  Handover handover = two_pipelines({3, 2, 2}, {3, 2, 2});
  for (Pipeline& pipeline : handover.plan.pipelines) {
    pipeline.stages[2].devices.push_back(static_cast<int>(handover.places.size()));
    GpuPlace place = handover.places[at(pipeline.stages[2].devices.front())];
    place.gpu = 1;
    handover.places.push_back(place);
  }
  CHECK(refusal("megatron", handover) ==
        "megatron: stage 2 uses tp=2, stage 0 tp=1; megatron has one tensor-parallel size; use --to "
        "flashflex, or plan "
        "with --alike");
  for (const char* name : {"torchtitan", "torchtitan-py", "deepspeed-py"})
    CHECK_THAT(refusal(name, handover), contains("has one tensor-parallel size"));
  for (const char* name : {"dtfm", "varuna"})
    CHECK_THAT(refusal(name, handover), contains("has no tensor parallelism"));
  CHECK(refusal("flashflex", handover) == "no error");
  CHECK(refusal("petals", handover) == "no error");
  handover.places[at(handover.plan.pipelines[0].stages[2].devices[1])] = {"far", "far", 0};
  CHECK_THAT(refusal("petals", handover), contains("on several machines"));
}

TEST_CASE("Micro-batches that differ, and batches that do not divide") {
  Handover handover = two_pipelines({3, 2, 2}, {3, 2, 2});
  handover.plan.pipelines[1].micro_batches = 6;
  handover.job.training.global_batch = 14;
  for (const std::string& name : common_layout)
    if (name != "varuna")
      CHECK_THAT(refusal(name, handover), contains("pipelines 0 and 1 have 8 and 6 micro-batches"));
  CHECK(refusal("flashflex", handover) == "no error");
  handover.plan.pipelines[1].micro_batches = 8;
  handover.job.training = {30, 2};
  CHECK_THAT(refusal("megatron", handover),
             contains("global batch 30 is not a multiple of micro-batch 2 x dp 2"));
  handover.job.training = {64, 2};
  CHECK_THAT(refusal("megatron", handover), contains("are not the job's global batch 64"));
}

TEST_CASE("Cuts that a trainer cannot make") {
  const Handover handover = two_pipelines({4, 1, 2}, {4, 1, 2});
  CHECK(refusal("deepspeed", handover) ==
        "deepspeed: partition_method cannot produce 4/1/2 (uniform gives 3/2/2); use --to deepspeed-py");
  CHECK(refusal("deepspeed-py", handover) == "no error");
  CHECK_THAT(refusal("varuna", handover), contains("stages have 4/1/2 layers"));
  CHECK(refusal("varuna", two_pipelines({2, 2, 2}, {2, 2, 2}, 6)) == "no error");
}

TEST_CASE("A stage without layers is Megatron's alone") {
  const Handover handover = two_pipelines({0, 4, 3}, {0, 4, 3});
  const Exporter* target = &exporter_named("megatron");
  Handover seated = handover;
  seat(seated);
  CHECK_THAT(text_of(exported(seated, {&target, 1}), "megatron.sh"), contains("\"E|tttt|tttL\""));
  for (const char* name :
       {"torchtitan", "torchtitan-py", "deepspeed", "deepspeed-py", "dtfm", "flashflex", "petals"})
    CHECK_THAT(refusal(name, handover), contains("stage 0 has no layers (0/4/3)"));
}

TEST_CASE("Pipelines of one stage, drains that are no equal rounds, virtual stages") {
  Handover handover = two_pipelines({7}, {7});
  CHECK_THAT(refusal("dtfm", handover), contains("one-stage pipelines are not runnable"));
  handover = two_pipelines({3, 4}, {3, 4});
  handover.job.parallelism.schedule = "gpipe";
  handover.job.parallelism.flush = 3;
  for (const char* name : {"dtfm", "torchtitan", "torchtitan-py"})
    CHECK_THAT(refusal(name, handover), contains("drain after 3 of 8 micro-batches"));
  handover.job.parallelism.flush = 4;
  CHECK(refusal("dtfm", handover) == "no error");
  handover.job.parallelism = {};
  handover.job.parallelism.schedule = "interleaved";
  handover.job.parallelism.chunks = 2;
  for (const char* name : {"dtfm", "deepspeed-py", "flashflex", "petals", "varuna"})
    CHECK_THAT(refusal(name, handover), contains("schedule interleaved with 2 chunks"));
  CHECK_THAT(refusal("megatron", handover), contains("Megatron needs more than 2"));
}

TEST_CASE("Models that are no transformers") {
  Handover handover = two_pipelines({1, 1}, {1, 1});
  LayerChain chain;
  chain.layers.resize(2);
  handover.job.model = chain;
  for (const char* name : {"megatron", "flashflex", "torchtitan", "torchtitan-py", "dtfm", "petals"})
    CHECK_THAT(refusal(name, handover), contains("chain of unlike layers"));
}

TEST_CASE("GPUs that Kubernetes cannot choose, ranks that torchrun's agents cannot have") {
  CHECK(error_of([] { handed_over(worked_example, {"kubernetes"}); }) ==
        "kubernetes: plan distinguishes GPUs of host gc; Kubernetes cannot choose a GPU index; use --any-gpu "
        "if they "
        "are alike, or --to torchrun");
  HandoverChoices choices;
  choices.launch.agents = Agents::host;
  CHECK(error_of([&] { handed_over(worked_example, {"torchrun"}, choices); }) ==
        "torchrun: ranks of host ga are 2,5, not one block; use --agents gpu, or --to slurm or openmpi");
}

TEST_CASE("Two trainers, an order that a trainer has not, a target that is not there") {
  CHECK_THAT(error_of([] {
               handed_over(worked_example, {"megatron", "flashflex"});
             }),
             contains("two trainers"));
  CHECK_THAT(error_of([] { handed_over(worked_example, {"torchtitan"}, {}, RankOrder::pipeline_major); }),
             contains("torchtitan: ranks are stage-major there"));
  CHECK_THAT(error_of([] { exporter_named("megatorn"); }), contains("did you mean `megatron`?"));
  CHECK_THAT(error_of([] { exporter_named("nanotron"); }),
             contains("nanotron cuts layers by a cost of its own"));
  CHECK_THAT(error_of([] { exporter_named("swarm"); }),
             contains("only 4 stages (head, body1, body2, tail) exist"));
  CHECK_THAT(error_of([] { exporter_named("opendiloco"); }), contains("not representable"));
  CHECK_THAT(error_of([] { exporter_named("k8s"); }), contains("is called kubernetes here"));
  CHECK_THAT(error_of([] { handed_over(worked_example, {"netem"}); }), contains("give it with --topology"));
}

TEST_CASE("A trainer's schedule that is not the plan's, and drains, are told") {
  Handover handover = two_pipelines({3, 4}, {3, 4});
  handover.job.parallelism.schedule = "gpipe";
  handover.job.parallelism.flush = 3;
  seat(handover);
  for (const char* name : {"megatron", "deepspeed-py", "flashflex"}) {
    const auto notes = exporter_named(name).notes(handover);
    REQUIRE(notes.size() > 1);
    CHECK(notes[0] ==
          "it runs schedule 1f1b, and the plan's times are those of gpipe: plan with schedule 1f1b");
    CHECK_THAT(notes[1], contains("does not drain pipelines after every 3 micro-batches"));
  }
  handover.job.parallelism = {};
  handover.job.parallelism.schedule = "1f1b";
  for (const std::string& note : exporter_named("deepspeed-py").notes(handover))
    CHECK(note.find("runs schedule") == note.npos);
}

TEST_CASE("Rank 0 comes to the master, where a pipeline begins there") {
  HandoverChoices choices;
  choices.master = "gb";
  const ExportFiles files = handed_over(worked_example, {"torchrun"}, choices);
  const auto rows = parse_rank_table(text_of(files, rank_table_file), "table");
  CHECK(rows.front().host == "gb");
  CHECK(rows[1].host == "gc");
  choices.master = "ga";
  CHECK_THAT(error_of([&] { handed_over(worked_example, {"torchrun"}, choices); }),
             contains("no pipeline begins on `ga`, and rank 0 begins one; those that do: gb, gc"));
}

TEST_CASE("Names of machines that go into scripts") {
  const auto with_host = [](const std::string& name) {
    std::string plan = worked_example;
    plan.replace(plan.find("gb:0"), 4, name);  // it is there once
    return plan;
  };
  for (const char* name : {"$(touch x):0", "a b:0", "a;b:0", "-rf:0", "../../etc:0", "a\\nb:0", "a'b:0",
                           "<script>:0", "a\\u0000b:0", ":0"})
    CHECK_THAT(error_of([&] { handed_over(with_host(name), {"torchrun"}); }),
               contains("give addresses with --hosts"));
  for (const char* name : {"gb:", "gb:x", "gb:-1", "gb:99999999999", "gb:0:0"})
    CHECK_THAT(error_of([&] { handed_over(with_host(name), {"torchrun"}); }),
               contains("expected the number of a GPU"));
  CHECK_THAT(error_of([&] { handed_over(with_host("gc:01"), {"torchrun"}); }), contains("are one GPU"));
  CHECK_THAT(error_of([&] { handed_over(with_host("g/c:9"), {"torchrun"}); }), contains("no error"));

  HandoverChoices choices;
  const auto hosts = [&](const std::string& text) {
    choices.hosts = NamedFile{"hosts", text};
    return error_of([&] { handed_over(with_host("my $(desk):0"), {"torchrun"}, choices); });
  };
  CHECK(hosts("ga 10.0.0.1\ngc c.example.org # the third\n  my $(desk)\t10.0.0.2 \n") == "no error");
  CHECK(hosts("ga 10.0.0.1\ngc c.example.org\n") == "hosts: lacks machine `my $(desk)`");
  CHECK(hosts("# all three\nga 10.0.0.1\t# one\ngc c.example.org\nmy $(desk) 10.0.0.2 #\n") == "no error");
  CHECK_THAT(hosts("ga#1 10.0.0.1\n"), contains("the plan has no machine `ga#1`"));
  CHECK_THAT(hosts("ga $(id)\n"), contains("hosts:1:4: `$(id)` is no address"));
  CHECK_THAT(hosts("ga 10.0.0.1\nga 10.0.0.2\n"), contains("hosts:2:1: machine `ga` is there twice"));
  CHECK_THAT(hosts("gx 10.0.0.1\n"), contains("the plan has no machine `gx`"));
  CHECK_THAT(hosts("ga\n"), contains("hosts:1:1: expected `MACHINE ADDRESS`"));
  CHECK_THAT(hosts("ga 10.0.0.1\ngc 10.0.0.1\nmy $(desk) d\n"), contains("have one address, 10.0.0.1"));
}

}  // namespace
}  // namespace dtfm
