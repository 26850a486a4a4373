// The worked example of trainers' formats (shared/reference/trainers.md, section 2), compared byte for byte
// where it gives bytes.
#include <array>

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"
#include "tests/support/export_examples.hpp"

namespace dtfm {
using namespace exporter;
namespace {

std::string file(const std::string& target, const char* name, std::optional<RankOrder> order = {}) {
  const std::string plan = target == "petals" ? example_for(target) : worked_example;
  return file_text(make_export_files(plan, {target}, {}, order), name);
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != text.npos;
}

std::vector<std::string> devices(const std::string& table) {
  std::vector<std::string> devices;
  for (const RankRow& row : parse_rank_table(table, "table"))
    devices.push_back(
        fmt::format("{}:{} ({},{})", row.host, row.gpu, row.assignment.pipeline, row.assignment.stage));
  return devices;
}

TEST_CASE("rank tables have the documented content in both orders") {
  CHECK(devices(file("torchrun", rank_table_file, RankOrder::stage_major)) ==
        std::vector<std::string>{"gc:1 (0,0)", "gb:0 (1,0)", "ga:0 (0,1)", "gc:2 (1,1)", "gc:0 (0,2)",
                                 "ga:1 (1,2)"});
  CHECK(devices(file("torchrun", rank_table_file, RankOrder::pipeline_major)) ==
        std::vector<std::string>{"gc:1 (0,0)", "ga:0 (0,1)", "gc:0 (0,2)", "gb:0 (1,0)", "gc:2 (1,1)",
                                 "ga:1 (1,2)"});
  CHECK(has(
      file("torchrun", rank_table_file),
      R"([{"rank":0,"host":"gc","gpu":1,"dp":0,"pp":0,"tp":0,"layers":[0,3],"node_rank":0,"local_rank":0},)"));
}

/// Derived by hand from the plan: 1F1B with 8 micro-batches per pipeline, whose first device is two ahead.
TEST_CASE("the PyTorch runtime gets the work of every rank") {
  const std::string program = file("pytorch", "program.json");
  CHECK(has(program, R"("orders": [
  "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7",
  "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7",
  "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7"
 ])"));
  const auto json = nlohmann::json::parse(program);
  CHECK(json["pipelines"][1] == nlohmann::json{{"micro_batches", 8}, {"first_micro_batch", 8}});
  CHECK(json["ranks"][2] == nlohmann::json::parse(R"({"device": "ga:0", "host": "ga", "pipeline": 0,
    "stage": 1, "order": 1, "chunks": [{"layers": [3, 5], "input_from": 0, "output_to": 4, "compress_input": null,
                                        "compress_output": null}]})"));
  CHECK(json["sync_groups"].size() == 3);
  CHECK(json["sync_groups"][0] ==
        nlohmann::json::parse(R"({"layers": [5, 7], "ranks": [4, 5], "compress": null, "all_reduce": 0})"));
  CHECK(json["collectives"][0] == nlohmann::json::parse(R"({"shards": 2, "chunks": 1, "steps": [
    "0+ >1:1 <1:0, 1= >1:0 <1:1", "0+ <0:1 >0:0, 1= <0:0 >0:1"]})"));
  CHECK(json["collectives"].size() == 2);  // the other one is that of tied pairs
  CHECK(json["tied_groups"].empty());
  CHECK(file("pytorch", "plan.json") == worked_example);
}

TEST_CASE("Megatron gets its documented flags") {
  const std::string flags = file("megatron", "megatron.sh");
  CHECK(has(flags, R"(
  --tensor-model-parallel-size 1
  --pipeline-model-parallel-size 3
  --context-parallel-size 1
  --num-layers 7
  --pipeline-model-parallel-layout "Ettt|tt|ttL"
  --micro-batch-size 2
  --global-batch-size 32
)"));
  CHECK_FALSE(has(flags, "--use-tp-pp-dp-mapping"));
  CHECK(has(file("megatron", "megatron.sh", RankOrder::pipeline_major), "\n  --use-tp-pp-dp-mapping\n"));
}

/// One pipeline of three stages of two devices, with these settings of parallelism and training.
std::string plan_of_pairs(const std::string& parallelism, const std::string& training) {
  std::string plan = worked_example;
  const auto pipelines = plan.find(" \"pipelines\"");
  plan.replace(pipelines, plan.npos, R"( "tensor": 1, "pipelines": [{"micro_batches": 16, "stages": [
    {"layers": [0, 3], "devices": ["ga:0", "ga:1"]}, {"layers": [3, 5], "devices": ["gb:0", "gb:1"]},
    {"layers": [5, 7], "devices": ["gc:0", "gc:1"]}]}]})");
  const auto put = [&](const std::string& before, const std::string& text) {
    plan.insert(plan.find(before) + before.size(), text);
  };
  put(R"("parallelism": {"schedule": "1f1b")", ", " + parallelism);
  put(R"("precision": "fp16")", ", " + training);
  return plan;
}

TEST_CASE("Megatron gets the exchanges of a stage and an offloaded optimizer") {
  std::string plan = plan_of_pairs(
      R"("tensor": 1, "context": 2, "context_exchange": "all-to-all", "expert": 2, "expert_dispatch": "hierarchical",
         "optimizer_sharding": "zero1", "gradient_sync": "ring")",
      R"("optimizer": "adam-offload")");
  plan.replace(plan.find("fp16"), 4, "bf16");
  const std::string_view tied = "\"tied\": false";
  plan.replace(
      plan.find(tied), tied.size(),
      R"("tied": false, "attention": "flash", "gated": true, "biases": false, "norm": "rms", "positions": "rotary",
    "experts": {"count": 8, "per_token": 2, "width": 1024})");
  const std::string flags = file_text(make_export_files(plan, {"megatron"}), "megatron.sh");
  for (const std::string_view flag :
       {"--cp-comm-type a2a", "--moe-token-dispatcher-type flex", "--moe-flex-dispatcher-backend deepep",
        "--optimizer-cpu-offload", "--optimizer-offload-fraction 1", "--use-precision-aware-optimizer",
        "--use-distributed-optimizer"}) {
    CAPTURE(flag);
    CHECK(has(flags, fmt::format("\n  {}\n", flag)));
  }
}

TEST_CASE("settings without effect are exported as if they were absent") {
  std::string plan = worked_example;
  const std::string schedule = R"("schedule": "1f1b")";
  plan.insert(plan.find(schedule) + schedule.size(),
              R"(, "context_exchange": "all-to-all", "expert_dispatch": "hierarchical")");
  const std::string flags = file_text(make_export_files(plan, {"megatron"}), "megatron.sh");
  CHECK_FALSE(has(flags, "--cp-comm-type"));
  CHECK_FALSE(has(flags, "--moe-token-dispatcher-type"));
}

TEST_CASE("Megatron gets the flags of latent attention and experts and predictions") {
  std::string plan = example_for("torchtitan");
  const std::string_view tied = "\"tied\": false";
  plan.replace(plan.find(tied), tied.size(), R"("tied": false, "predicted_tokens": 2,
    "latent_attention": {"kv_rank": 512, "query_rank": 1536, "nope_dim": 128, "rope_dim": 64, "value_dim": 128},
    "experts": {"count": 64, "per_token": 6, "width": 1408, "shared_width": 2816, "shared_gate": true},
    "blocks": [{"mlp": "dense"}, {"mlp": "experts", "repeat": 6}])");
  const std::string flags = file_text(make_export_files(plan, {"megatron"}), "megatron.sh");
  CHECK(has(flags, "\n  --expert-model-parallel-size 1\n"));
  CHECK(has(flags, "\n  --pipeline-model-parallel-layout \"Ettt|tt|ttmmL\"\n"));
  CHECK(has(flags, R"(
  --attention-backend auto
  --attention-dropout 0.0
  --multi-latent-attention
  --q-lora-rank 1536
  --kv-lora-rank 512
  --qk-head-dim 128
  --qk-pos-emb-head-dim 64
  --v-head-dim 128
  --mtp-num-layers 2
  --num-experts 64
  --moe-layer-freq "[0]+[1]*6"
  --moe-router-topk 6
  --moe-router-dtype fp32
  --moe-ffn-hidden-size 1408
  --moe-shared-expert-intermediate-size 2816
  --moe-shared-expert-gate
  --moe-grouped-gemm
  --moe-token-dispatcher-type alltoall
)"));
  CHECK_FALSE(has(flags, "--group-query-attention"));
  const std::string plain = file("megatron", "megatron.sh");
  for (const char* text : {"expert", "moe", "mtp", "latent", "window", "--add-qkv-bias"})
    CHECK_FALSE(has(plain, text));
}

TEST_CASE("Megatron gets windows and sinks and biases of some matrices") {
  std::string plan = example_for("torchtitan");
  const std::string_view biases = "\"biases\": false";
  plan.replace(plan.find(biases), biases.size(), R"("biases": ["qkv"], "window": 128, "attention_sinks": true,
    "blocks": [{"mixer": "window-attention", "repeat": 3}, {"repeat": 4}])");
  const std::string flags = file_text(make_export_files(plan, {"megatron"}), "megatron.sh");
  CHECK(has(flags, "\n  --disable-bias-linear\n  --add-qkv-bias\n"));
  CHECK(has(flags,
            "\n  --softmax-type learnable\n  --window-size 127,0\n  --window-attn-skip-freq "
            "\"[1]*3+[0]*4\"\n"));
  // The runtime takes the modules from the user, and the README says so.
  const std::string notes = file_text(make_export_files(plan, {"pytorch"}), "README.md");
  CHECK(
      has(notes,
          "the model has blocks of several kinds: pass the modules of its layers to train.py with --model"));
}

TEST_CASE("Megatron gets the sequence parallelism of the job with tensor parallelism") {
  const auto flags = [](const std::string& parallelism) {
    std::string plan = worked_example.substr(0, worked_example.find("\"pipelines\""));
    const std::string_view schedule = "{\"schedule\": \"1f1b\"}";
    plan.replace(plan.find(schedule), schedule.size(), parallelism);
    plan +=
        R"("pipelines": [{"micro_batches": 16, "stages": [{"layers": [0, 7], "devices": ["ga:0", "ga:1"]}]}]})";
    return file_text(make_export_files(plan, {"megatron"}, {}, {}), "megatron.sh");
  };
  const std::string divided = flags(R"({"schedule": "1f1b", "tensor": 2})"),
                    whole = flags(R"({"schedule": "1f1b", "tensor": 2, "sequence_parallel": false})"),
                    single = file("megatron", "megatron.sh");
  CHECK(has(divided, "\n  --tensor-model-parallel-size 2\n"));
  CHECK(has(divided, "\n  --sequence-parallel\n"));
  for (const std::string& text : {divided, whole}) CHECK(has(text, "\nexport CUDA_DEVICE_MAX_CONNECTIONS=1"));
  for (const std::string& text : {whole, single}) CHECK_FALSE(has(text, "--sequence-parallel"));
  CHECK_FALSE(has(single, "CUDA_DEVICE_MAX_CONNECTIONS"));
}

TEST_CASE("torchtitan gets its documented configuration") {
  const std::string python =
      file_text(make_export_files(example_for("torchtitan"), {"torchtitan"}), "dtfm_plan.py");
  CHECK(has(python, R"(
LAYERS, HIDDEN, FEED_FORWARD = 7, 2048, 8192
HEADS, KV_HEADS, HEAD_DIM = 16, 16, 128
VOCABULARY, SEQUENCE, TIED = 50304, 2048, False
)"));
  CHECK(has(python, R"(
            local_batch_size=16,  # sequences of a replica between two flushes
            global_batch_size=32,
)"));
  CHECK(has(python, R"(
            pipeline_parallel_degree=3,
            data_parallel_replicate_degree=2,
            data_parallel_shard_degree=1,
            fsdp_reshard_after_forward="default",
            tensor_parallel_degree=1,
            context_parallel_degree=1,
            expert_parallel_degree=1,
            enable_sequence_parallel=True,
            pipeline_parallel_schedule="1F1B",
            pipeline_parallel_schedule_csv="",  # if not empty: the operations of each device
            pipeline_parallel_microbatch_size=2,
            module_fqns_per_model_part=[
                ["tok_embeddings","layers.0","layers.1","layers.2"],
                ["layers.3","layers.4"],
                ["layers.5","layers.6","norm","lm_head"],
            ],
)"));
  CHECK(has(python, "\n        activation_checkpoint=None,"));
  CHECK(has(python, "\n            disable_cuda_graphs=True,"));
}

/// The worked example for torchtitan with a schedule, and these passes of stages in both pipelines.
std::string example_with_schedule(std::string_view name, const std::array<std::string_view, 3>& passes = {}) {
  std::string plan = example_for("torchtitan");
  const std::string_view given = "\"schedule\": \"1f1b\"";
  plan.replace(plan.find(given), given.size(), fmt::format("\"schedule\": \"{}\"", name));
  constexpr std::array<std::string_view, 3> layers = {"[0, 3], ", "[3, 5], ", "[5, 7], "};
  for (std::size_t stage = 0; stage < passes.size(); ++stage)
    for (std::size_t found = plan.find(layers[stage]); found != plan.npos && !passes[stage].empty();
         found = plan.find(layers[stage], found + 1))
      plan.insert(found + layers[stage].size(), fmt::format("\"passes\": \"{}\", ", passes[stage]));
  return plan;
}

// The format of torch/distributed/pipelining/schedules.py, which numbers operations by stage and micro-batch.
TEST_CASE("torchtitan gets the planned order of passes as a table") {
  const std::string plan =
      example_with_schedule("zb-greedy", {"F*8 (IW)*8", "F*2 (IFW)*6 (IW)*2", "(FIW)*8"});
  const ExportFiles files = make_export_files(plan, {"torchtitan"});
  const std::string table =
      "0F0,0F1,0F2,0F3,0F4,0F5,0F6,0F7,0I0,0W0,0I1,0W1,0I2,0W2,0I3,0W3,0I4,0W4,0I5,0W5,0I6,0W6,0I7,0W7\n"
      "1F0,1F1,1I0,1F2,1W0,1I1,1F3,1W1,1I2,1F4,1W2,1I3,1F5,1W3,1I4,1F6,1W4,1I5,1F7,1W5,1I6,1W6,1I7,1W7\n"
      "2F0,2I0,2W0,2F1,2I1,2W1,2F2,2I2,2W2,2F3,2I3,2W3,2F4,2I4,2W4,2F5,2I5,2W5,2F6,2I6,2W6,2F7,2I7,2W7\n";
  CHECK(file_text(files, "zb-greedy.csv") == table);
  CHECK(file_text(make_export_files(plan, {"pytorch-pipelining"}), "schedule.csv") == table);
  const std::string& python = file_text(files, "dtfm_plan.py");
  CHECK(has(python, R"(
            pipeline_parallel_schedule="PipelineScheduleMulti",
            pipeline_parallel_schedule_csv=str(Path(__file__).with_name("zb-greedy.csv")),)"));
  CHECK(has(python, "\ntorch._functorch.config.donated_buffer = False"));
  CHECK(has(file_text(files, "README.md"), "zb-greedy.csv has the operations of 8 micro-batches of 2"));
}

TEST_CASE("torchtitan gets a table only of schedules that PyTorch has no class for") {
  const ExportFiles eager = make_export_files(example_with_schedule("eager-1f1b"), {"torchtitan"});
  CHECK(file_text(eager, "eager-1f1b.csv").starts_with("0F0,0F1,0F2,0F3,0F4,0B0,0F5,0B1,"));
  CHECK_FALSE(has(file_text(eager, "dtfm_plan.py"), "donated_buffer"));
  for (const char* schedule : {"1f1b", "1f1b-blocking", "gpipe"}) {
    CAPTURE(schedule);
    const ExportFiles files = make_export_files(example_with_schedule(schedule), {"torchtitan"});
    for (const ExportFile& it : files) CHECK_FALSE(it.name.ends_with(".csv"));
    CHECK(has(file_text(files, "dtfm_plan.py"), "\n            pipeline_parallel_schedule_csv=\"\","));
  }
}

TEST_CASE("Megatron gets every setting of the plan") {
  const auto flags = [](const std::string& key, const std::string& value, const std::string& parallelism) {
    std::string plan = worked_example;
    const std::string_view schedule = "{\"schedule\": \"1f1b\"}", precision = "\"precision\": \"fp16\"";
    if (!parallelism.empty()) plan.replace(plan.find(schedule), schedule.size(), "{" + parallelism + "}");
    if (!key.empty())
      plan.replace(plan.find(precision), precision.size(),
                   fmt::format("\"precision\": \"bf16\", \"{}\": \"{}\"", key, value));
    return file_text(make_export_files(plan, {"megatron"}), "megatron.sh");
  };
  const std::string plain = flags("", "", "");
  CHECK(has(plain, "\n  --fp16\n  --optimizer adam\n"));
  CHECK(has(plain, "\n  --ffn-hidden-size 8192\n"));
  CHECK(has(plain, "\n  --attention-backend unfused\n  --attention-dropout 0.1\n"));
  CHECK(has(plain, "\n  --mock-data\n  --tokenizer-type NullTokenizer\n  --vocab-size 50303\n"));
  CHECK_FALSE(has(plain, "--overlap-grad-reduce"));
  CHECK(has(flags("", "", R"("schedule": "1f1b", "overlap": true)"), "\n  --overlap-grad-reduce\n"));
  CHECK(has(flags("recompute", "selective", ""), "\n  --bf16\n"));
  CHECK(has(flags("recompute", "selective", ""), "\n  --recompute-granularity selective\n"));
  CHECK(has(flags("recompute", "full", ""),
            "\n  --recompute-granularity full\n  --recompute-method uniform\n  --recompute-num-layers 1\n"));
  CHECK(has(flags("recompute", "full\", \"recompute_layers\": 2, \"optimizer\": \"adam-18", ""),
            "\n  --recompute-granularity full\n  --recompute-method block\n  --recompute-num-layers 2\n"));
  CHECK(has(flags("optimizer", "sgd-8", ""), "\n  --optimizer adam\n"));
  CHECK_FALSE(has(plain, "--overlap-p2p-communication-warmup-flush"));
}

TEST_CASE("a plan with zero1 gets the flags of sharded optimizers") {
  const auto text = [](const std::string& target, const char* name) {
    std::string plan = worked_example;
    const std::string_view schedule = "{\"schedule\": \"1f1b\"}";
    plan.replace(plan.find(schedule), schedule.size(),
                 "{\"schedule\": \"1f1b\", \"gradient_sync\": \"ring\", \"optimizer_sharding\": \"zero1\"}");
    return file_text(make_export_files(plan, {target}, {}, {}), name);
  };
  CHECK(has(text("megatron", "megatron.sh"), "\n  --use-distributed-optimizer\n"));
  CHECK(has(text("deepspeed", "ds_config.json"), "\"stage\": 1,"));
  CHECK_FALSE(has(file("megatron", "megatron.sh"), "--use-distributed-optimizer"));
}

// The keys of docs.deepspeed.ai/docs/config-json; batch: 2 replicas × 8 micro-batches × 2.
TEST_CASE("DeepSpeed gets its documented JSON") {
  CHECK(file("deepspeed", "ds_config.json") == R"({
 "train_batch_size": 32,
 "train_micro_batch_size_per_gpu": 2,
 "gradient_accumulation_steps": 8,
 "optimizer": {
  "type": "AdamW",
  "params": {
   "lr": 0.001,
   "betas": [
    0.9,
    0.999
   ],
   "eps": 1e-08,
   "weight_decay": 0.01,
   "torch_adam": true
  }
 },
 "gradient_clipping": 0.0,
 "steps_per_print": 1000000,
 "zero_optimization": {
  "stage": 0
 },
 "fp16": {
  "enabled": true,
  "initial_scale_power": 16
 }
}
)");
}

// The format of torch/distributed/pipelining/schedules.py. Device d of 3 begins with 2 − d forwards.
TEST_CASE("torch's pipelining gets the schedule as a table") {
  CHECK(file("pytorch-pipelining", "schedule.csv") ==
        "0F0,0F1,0F2,0B0,0F3,0B1,0F4,0B2,0F5,0B3,0F6,0B4,0F7,0B5,0B6,0B7\n"
        "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1F4,1B3,1F5,1B4,1F6,1B5,1F7,1B6,1B7\n"
        "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3,2F4,2B4,2F5,2B5,2F6,2B6,2F7,2B7\n");
}

TEST_CASE("DT-FM gets its documented processes") {
  const std::string script = file("dtfm", "dtfm.sh");
  CHECK(has(
      script,
      "\n  \"0 gc 1 3\"\n  \"1 ga 0 2\"\n  \"2 gc 0 2\"\n  \"3 gb 0 3\"\n  \"4 gc 2 2\"\n  \"5 ga 1 2\"\n"));
  CHECK(has(script, "--dist-url tcp://gc:29500 --world-size 6"));
  CHECK(has(script, "--pipeline-group-size 3 --data-group-size 2 --rank"));
  CHECK(has(file("dtfm", "rank_map.sh"), "\nnodes_per_node=(2 1 3)\nrank_map=(1 5 3 2 0 4)\n"));
}

TEST_CASE("Petals gets its documented blocks") {
  const std::string script = file("petals", "petals.sh");
  for (const char* blocks : {" 0:3\"", " 3:5\"", " 5:7\""}) CHECK(has(script, blocks));
}

TEST_CASE("Open MPI gets a rankfile and Slurm a list of hosts") {
  CHECK(file("openmpi", "rankfile") ==
        "rank 0=gc slot=0-15\nrank 1=gb slot=0-15\nrank 2=ga slot=0-15\n"
        "rank 3=gc slot=0-15\nrank 4=gc slot=0-15\nrank 5=ga slot=0-15\n");
  CHECK(file("slurm", "slurm-hosts") == "gc\ngb\nga\ngc\ngc\nga\n");
}

TEST_CASE("torchrun gets its documented agents") {
  CHECK(has(file("torchrun", "torchrun.sh"),
            "\n  \"0 gc 1\"\n  \"1 gb 0\"\n  \"2 ga 0\"\n  \"3 gc 2\"\n  \"4 gc 0\"\n  \"5 ga 1\"\n"));
  CHECK(has(file("torchrun", "torchrun.sh"), "world=6 master=gc port=29500"));
}

}  // namespace
}  // namespace dtfm
