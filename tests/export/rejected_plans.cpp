// Plans that a target cannot express are rejected with a reason and a correct way out.
#include "core/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/export_examples.hpp"

namespace dtfm {
using namespace exporter;
using namespace io;
namespace {

/// Returns two pipelines of one device per stage on machines a0, a1, … and b0, b1, … with the given layers
/// per stage.
ExportBundle two_pipelines(std::vector<int> first, std::vector<int> second, int layers = 7) {
  ExportBundle bundle;
  bundle.job.name = "two";
  bundle.job.model = llama_of(layers);
  bundle.job.training.global_batch = 16;
  bundle.job.execution.micro_batch = 1;
  bundle.job.execution.schedule = Schedule::one_f_one_b;
  int device = 0;
  for (const auto& counts : {first, second}) {
    Pipeline pipeline{8, {}};
    int begin = 0;
    for (const int count : counts) {
      pipeline.stages.push_back({{begin, begin + count}, {device}});
      begin += count;
      const std::string host = fmt::format("m{}", device++);
      bundle.locations.push_back({host, host, 0});
    }
    bundle.plan.pipelines.push_back(pipeline);
  }
  return bundle;
}

void fill_slots(ExportBundle& bundle, RankOrder order = RankOrder::stage_major) {
  bundle.plan.execution = bundle.job.execution;
  bundle.order = order;
  bundle.assignments = assign_ranks(bundle.plan, bundle.job, order);
}

std::string rejection_message(const std::string& name, ExportBundle bundle) {
  const Exporter* target = &find_exporter(name);
  fill_slots(bundle, choose_rank_order({&target, 1}, {}));
  return error_message([&] { export_files(run_on_trainer(bundle, {&target, 1}), {&target, 1}); });
}

const std::vector<std::string> common_layout = {"megatron", "torchtitan", "pytorch-pipelining", "deepspeed",
                                                "dtfm"};

TEST_CASE("pipelines that split layers differently are rejected") {
  const ExportBundle bundle = two_pipelines({3, 2, 2}, {2, 3, 2});
  CHECK(rejection_message("megatron", bundle) ==
        "megatron: pipelines 0 and 1 split layers differently (3/2/2 vs 2/3/2); megatron has one layout for "
        "all replicas; use --to pytorch, or plan with --target megatron");
  for (const std::string& name : common_layout)
    CHECK_THAT(rejection_message(name, bundle), contains("split layers differently"));
  CHECK(rejection_message("pytorch", bundle) == "no error");
  CHECK(rejection_message("petals", bundle) == "no error");
}

TEST_CASE("pipelines that compute in different orders are rejected") {
  ExportBundle bundle = two_pipelines({3, 4}, {3, 4});
  bundle.plan.execution.schedule = bundle.job.execution.schedule = Schedule::zero_bubble_greedy;
  for (Pipeline& pipeline : bundle.plan.pipelines)
    for (Stage& stage : pipeline.stages)
      for (const auto kind :
           {Operation::Kind::forward, Operation::Kind::backward, Operation::Kind::weight_gradient})
        stage.passes.insert(stage.passes.end(), at(pipeline.micro_batches), kind);
  CHECK(rejection_message("torchtitan", bundle) == "no error");
  bundle.plan.pipelines[1].stages[1].passes = {};
  for (const char* name : {"torchtitan", "pytorch-pipelining"})
    CHECK_THAT(rejection_message(name, bundle), contains("pipelines 0 and 1 compute in different orders"));
  CHECK(rejection_message("pytorch", bundle) == "no error");
}

TEST_CASE("pipelines of different depth are rejected") {
  const ExportBundle bundle = two_pipelines({3, 2, 2}, {3, 4});
  for (const std::string& name : common_layout) {
    CHECK_THAT(rejection_message(name, bundle), contains("pipelines 0 and 1 have 3 and 2 stages"));
    CHECK_THAT(rejection_message(name, bundle),
               contains("needs the same data-parallel degree in every stage"));
  }
  CHECK(rejection_message("pytorch", bundle) == "no error");
}

TEST_CASE("mixed tensor degrees are rejected and so is any degree that a target does not support") {
  ExportBundle bundle = two_pipelines({3, 2, 2}, {3, 2, 2});
  for (Pipeline& pipeline : bundle.plan.pipelines) {
    pipeline.stages[2].devices.push_back(static_cast<int>(bundle.locations.size()));
    GpuLocation location = bundle.locations[at(pipeline.stages[2].devices.front())];
    location.gpu = 1;
    bundle.locations.push_back(location);
  }
  CHECK(rejection_message("megatron", bundle) ==
        "megatron: stage 2 uses tp=2, stage 0 tp=1; megatron has one tensor-parallel size; use --to "
        "pytorch, or plan with --target megatron");
  CHECK_THAT(rejection_message("torchtitan", bundle), contains("has one tensor-parallel size"));
  for (const char* name : {"pytorch", "dtfm", "deepspeed", "pytorch-pipelining"})
    CHECK_THAT(rejection_message(name, bundle), contains("has no tensor parallelism"));
  CHECK(rejection_message("petals", bundle) == "no error");
  bundle.locations[at(bundle.plan.pipelines[0].stages[2].devices[1])] = {"far", "far", 0};
  CHECK_THAT(rejection_message("petals", bundle), contains("on several machines"));
}

TEST_CASE("a program is limited, and so are the models that the PyTorch runtime has") {
  ExportBundle bundle = two_pipelines({3, 2, 2}, {3, 2, 2});
  for (Pipeline& pipeline : bundle.plan.pipelines) pipeline.micro_batches = 2'000'000;
  bundle.job.training.global_batch = 4'000'000 * bundle.plan.execution.micro_batch;
  CHECK(
      rejection_message("pytorch", bundle) ==
      "pytorch: the plan has 2.4e+07 computations per iteration, more than the 2e+07 of a program; plan with "
      "larger micro-batches");
  bundle = two_pipelines({3, 2, 2}, {3, 2, 2});
  std::get<Transformer>(bundle.job.model).encoder = true;
  CHECK_THAT(rejection_message("pytorch", bundle), contains("the model is an encoder"));
  bundle = two_pipelines({3, 2, 2}, {3, 2, 2});
  bundle.job.execution.gradient_sync = bundle.plan.execution.gradient_sync = GradientSync::hierarchical;
  CHECK_THAT(rejection_message("pytorch", bundle),
             contains("depends on the sites of the network; add --topology FILE"));
}

TEST_CASE("different numbers of micro-batches and indivisible batches are rejected") {
  ExportBundle bundle = two_pipelines({3, 2, 2}, {3, 2, 2});
  bundle.plan.pipelines[1].micro_batches = 6;
  bundle.job.training.global_batch = 14;
  for (const std::string& name : common_layout)
    CHECK_THAT(rejection_message(name, bundle), contains("pipelines 0 and 1 have 8 and 6 micro-batches"));
  CHECK(rejection_message("pytorch", bundle) == "no error");
  bundle.plan.pipelines[1].micro_batches = 8;
  bundle.job.training.global_batch = 30;
  bundle.job.execution.micro_batch = 2;
  CHECK_THAT(rejection_message("megatron", bundle),
             contains("global batch 30 is not a multiple of micro-batch 2 x dp 2"));
  bundle.job.training.global_batch = 64;
  bundle.job.execution.micro_batch = 2;
  CHECK_THAT(rejection_message("megatron", bundle), contains("do not make up the job's global batch 64"));
}

TEST_CASE("only Megatron accepts a stage without layers") {
  const ExportBundle bundle = two_pipelines({0, 4, 3}, {0, 4, 3});
  const Exporter* target = &find_exporter("megatron");
  ExportBundle assigned = bundle;
  fill_slots(assigned);
  assigned = run_on_trainer(std::move(assigned), {&target, 1});
  CHECK_THAT(file_text(export_files(assigned, {&target, 1}), "megatron.sh"), contains("\"E|tttt|tttL\""));
  for (const char* name : {"torchtitan", "pytorch-pipelining", "deepspeed", "dtfm", "petals"})
    CHECK_THAT(rejection_message(name, bundle), contains("stage 0 has no layers (0/4/3)"));
  ExportBundle chunked = two_pipelines({3, 2, 2}, {3, 2, 2});
  for (Pipeline& pipeline : chunked.plan.pipelines) {
    pipeline.micro_batches = 6;
    pipeline.stages.back().virtual_layers = {2, 0};
  }
  chunked.job.training.global_batch = 12 * chunked.job.execution.micro_batch;
  chunked.job.execution.schedule = Schedule::interleaved;
  chunked.job.execution.chunks = 2;
  CHECK(rejection_message("megatron", chunked) == "no error");
  for (const char* name : {"torchtitan", "pytorch-pipelining", "pytorch"})
    CHECK_THAT(rejection_message(name, chunked), contains("virtual stage 5 has no layers (1/1/2/2/1/0)"));
  chunked.plan.pipelines[1].stages.back().virtual_layers.clear();
  CHECK_THAT(rejection_message("megatron", chunked),
             contains("pipelines 0 and 1 split layers differently (1/1/2/2/1/0 vs 1/1/1/2/1/1)"));
}

TEST_CASE("single-stage pipelines and uneven flushes and virtual stages are rejected where unsupported") {
  ExportBundle bundle = two_pipelines({7}, {7});
  CHECK_THAT(rejection_message("dtfm", bundle),
             contains("pipelines have 1 stage; dtfm needs at least 2; plan with --target dtfm"));
  bundle = two_pipelines({3, 4}, {3, 4});
  bundle.job.execution.schedule = Schedule::gpipe;
  bundle.job.execution.flush = 3;
  for (const char* name : {"dtfm", "pytorch-pipelining"})
    CHECK_THAT(rejection_message(name, bundle), contains("flush every 3 of 8 micro-batches"));
  bundle.job.execution.flush = 4;
  CHECK(rejection_message("dtfm", bundle) == "no error");
  bundle.job.parallelism = {};
  bundle.job.execution.schedule = Schedule::interleaved;
  bundle.job.execution.chunks = 2;
  for (const char* name : {"dtfm", "deepspeed", "petals"})
    CHECK_THAT(rejection_message(name, bundle), contains("schedule interleaved with 2 chunks"));
  bundle = two_pipelines({7}, {7});
  bundle.job.execution.schedule = Schedule::interleaved;
  bundle.job.execution.chunks = 2;
  for (const std::string name : {"megatron", "torchtitan"})
    CHECK_THAT(rejection_message(name, bundle),
               contains(fmt::format("schedule interleaved over 1 stages; {} needs at least 2", name)));
}

TEST_CASE("models that are not transformers are rejected") {
  ExportBundle bundle = two_pipelines({1, 1}, {1, 1});
  LayerChain chain;
  chain.layers.resize(2);
  bundle.job.model = chain;
  for (const char* name : {"megatron", "torchtitan", "deepspeed", "pytorch-pipelining", "dtfm", "petals"})
    CHECK_THAT(rejection_message(name, bundle), contains("chain of layers"));
}

TEST_CASE("models that Petals does not serve are rejected") {
  CHECK(error_message([] { make_export_files(worked_example, {"petals"}); }) ==
        "petals: the model of job `worked` has learned positions, but Petals serves only Llama, Falcon, BLOOM "
        "and Mixtral of Hugging Face; plan one of them with --model config.json, or use --to pytorch");
  ExportBundle bundle = two_pipelines({3, 4}, {3, 4});
  std::get<Transformer>(bundle.job.model).qk_norm = QkNorm::head;
  CHECK_THAT(rejection_message("petals", bundle), contains("has norms of queries and keys"));
}

TEST_CASE("GPUs that Kubernetes cannot choose and ranks that torchrun agents cannot have are rejected") {
  CHECK(error_message([] { make_export_files(worked_example, {"kubernetes"}); }) ==
        "kubernetes: plan distinguishes GPUs of host gc; Kubernetes cannot choose a GPU index; use --any-gpu "
        "if they are equal, or --to torchrun");
  ExportChoices choices;
  choices.launch.agents = AgentPer::host;
  CHECK(error_message([&] { make_export_files(worked_example, {"torchrun"}, choices); }) ==
        "torchrun: ranks of host ga are 2,5, not consecutive; use --agents gpu, or --to slurm or openmpi");
}

TEST_CASE("two trainers or an unsupported rank order or an unknown target are rejected") {
  CHECK_THAT(error_message([] {
               make_export_files(worked_example, {"megatron", "pytorch"});
             }),
             contains("both trainers"));
  CHECK_THAT(error_message([] {
               make_export_files(example_for("torchtitan"), {"torchtitan"}, {}, RankOrder::pipeline_major);
             }),
             contains("torchtitan: ranks must be stage-major"));
  CHECK_THAT(error_message([] { find_exporter("megatorn"); }), contains("did you mean `megatron`?"));
  CHECK_THAT(error_message([] { find_exporter("nanotron"); }),
             contains("nanotron splits layers by its own cost model"));
  CHECK_THAT(error_message([] { find_exporter("swarm"); }),
             contains("only 4 stages (head, body1, body2, tail) exist"));
  CHECK(error_message([] { find_exporter("varuna"); }) ==
        "--to: varuna was removed; use pytorch, megatron or deepspeed");
  CHECK(error_message([] { find_exporter("flashflex"); }) ==
        "--to: flashflex was removed; use pytorch, which also runs heterogeneous pipelines");
  CHECK_THAT(error_message([] { find_exporter("opendiloco"); }), contains("not representable"));
  CHECK_THAT(error_message([] { find_exporter("k8s"); }), contains("is called kubernetes here"));
  CHECK_THAT(error_message([] { make_export_files(worked_example, {"netem"}); }),
             contains("give its topology with --topology"));
}

TEST_CASE("a plan is exported with the settings that the trainer runs") {
  ExportBundle bundle = two_pipelines({3, 4}, {3, 4});
  bundle.job.execution.schedule = Schedule::gpipe;
  bundle.job.execution.flush = 4;
  bundle.job.execution.compression.activations = 0.5;
  fill_slots(bundle);
  const auto changes = [&](const char* name) {
    const Exporter* target = &find_exporter(name);
    const ExportBundle run = run_on_trainer(bundle, {&target, 1});
    CHECK(run.plan.execution == run.job.execution);
    for (const std::string& note : export_notes(run, {&target, 1}))
      CHECK_THAT(note, !contains("schedule") && !contains("compression"));
    std::vector<std::string> texts;
    for (const TargetChange& it : run.changes) texts.push_back(format_change(it));
    return texts;
  };
  using Texts = std::vector<std::string>;
  CHECK(changes("megatron") ==
        Texts{"schedule 1f1b-blocking instead of gpipe", "gradient_sync ring instead of sharded-ps",
              "optimizer adam-20 instead of adam-16", "messages megatron instead of ahead",
              "flush none instead of 4", "activations 1 instead of 0.5"});
  CHECK(changes("torchtitan") ==
        Texts{"precision bf16 instead of fp16", "gradient_sync ring instead of sharded-ps",
              "optimizer adam-18 instead of adam-16", "messages torch instead of ahead",
              "flush none instead of 4", "activations 1 instead of 0.5"});
  CHECK(changes("dtfm") == Texts{"recompute full instead of none",
                                 "optimizer host-offload instead of adam-16",
                                 "activations 1 instead of 0.5"});
  bundle.job.execution = {};
  fill_slots(bundle);
  CHECK(changes("torchrun").empty());
}

TEST_CASE("rank 0 is on the master if a pipeline begins there") {
  ExportChoices choices;
  choices.master = "gb";
  const ExportFiles files = make_export_files(worked_example, {"torchrun"}, choices);
  const auto rows = parse_rank_table(file_text(files, rank_table_file), "table");
  CHECK(rows.front().host == "gb");
  CHECK(rows[1].host == "gc");
  choices.master = "ga";
  CHECK_THAT(error_message([&] { make_export_files(worked_example, {"torchrun"}, choices); }),
             contains("no pipeline begins on `ga`, but rank 0 must begin one; pipelines begin on gb, gc"));
}

TEST_CASE("host names that are unsafe in scripts are rejected") {
  const auto with_host = [](const std::string& name) {
    std::string plan = worked_example;
    plan.replace(plan.find("gb:0"), 4, name);  // it occurs once
    return plan;
  };
  for (const char* name : {"$(touch x):0", "a b:0", "a;b:0", "-rf:0", "../../etc:0", "a\\nb:0", "a'b:0",
                           "<script>:0", "a\\u0000b:0", ":0"})
    CHECK_THAT(error_message([&] { make_export_files(with_host(name), {"torchrun"}); }),
               contains("give addresses with --hosts"));
  for (const char* name : {"gb:", "gb:x", "gb:-1", "gb:99999999999", "gb:0:0"})
    CHECK_THAT(error_message([&] { make_export_files(with_host(name), {"torchrun"}); }),
               contains("expected a GPU number"));
  CHECK_THAT(error_message([&] { make_export_files(with_host("gc:01"), {"torchrun"}); }),
             contains("are the same GPU"));
  CHECK_THAT(error_message([&] { make_export_files(with_host("g/c:9"), {"torchrun"}); }),
             contains("no error"));

  ExportChoices choices;
  const auto hosts = [&](const std::string& text) {
    choices.hosts = NamedFile{"hosts", text};
    return error_message([&] { make_export_files(with_host("my $(desk):0"), {"torchrun"}, choices); });
  };
  CHECK(hosts("ga 10.0.0.1\ngc c.example.org # the third\n  my $(desk)\t10.0.0.2 \n") == "no error");
  CHECK(hosts("ga 10.0.0.1\ngc c.example.org\n") == "hosts: no address for machine `my $(desk)`");
  CHECK(hosts("# all three\nga 10.0.0.1\t# one\ngc c.example.org\nmy $(desk) 10.0.0.2 #\n") == "no error");
  CHECK_THAT(hosts("ga#1 10.0.0.1\n"), contains("the plan has no machine `ga#1`"));
  CHECK_THAT(hosts("ga $(id)\n"), contains("hosts:1:4: `$(id)` is not an address"));
  CHECK_THAT(hosts("ga 10.0.0.1\nga 10.0.0.2\n"), contains("hosts:2:1: machine `ga` is listed twice"));
  CHECK_THAT(hosts("gx 10.0.0.1\n"), contains("the plan has no machine `gx`"));
  CHECK_THAT(hosts("ga\n"), contains("hosts:1:1: expected `MACHINE ADDRESS`"));
  CHECK_THAT(hosts("ga 10.0.0.1\ngc 10.0.0.1\nmy $(desk) d\n"), contains("have the same address, 10.0.0.1"));
}

}  // namespace
}  // namespace dtfm
