#include "core/io/importers/megatron_plan.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/plan/virtual_stages.hpp"
#include "core/io/importers/megatron_layout.hpp"
#include "core/io/importers/megatron_flags.hpp"
#include "core/io/importers/megatron_pattern.hpp"
#include "core/io/importers/megatron_settings.hpp"
#include "core/io/readers/rank_file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"

using namespace dtfm;
using namespace dtfm::io;

namespace {

/// Returns hosts a … with `gpus` devices each, at least two: a:0, a:1, …
Topology hosts(int count, int gpus) {
  Topology topology;
  topology.name = "hosts";
  topology.sites = {{"here"}};
  for (int host = 0; host < count; ++host)
    for (int gpu = 0; gpu < gpus; ++gpu) {
      Device device;
      device.id = static_cast<char>('a' + host);
      device.id += ':' + std::to_string(gpu);
      device.host = host;
      topology.devices.push_back(device);
    }
  return topology;
}

Job job_of(int layers) {
  Job job;
  job.name = "small";
  job.model = Transformer{layers, 8, 2, 16, 100};
  job.training.global_batch = 24;
  job.execution.schedule = Schedule::one_f_one_b;
  return job;
}

/// Returns the plan of these flags and ranks on four hosts with two devices each.
Plan plan_of(const std::string& flags, const std::string& ranks, const Job& job,
             std::vector<std::string>* all_notes = nullptr) {
  InputErrors errors;
  const Topology topology = hosts(4, 2);
  DeviceResolver resolver(topology, errors);
  std::vector<std::string> notes;
  Plan plan = read_megatron_plan({"flags", flags}, {"ranks", ranks}, job, resolver, errors, notes);
  errors.throw_if_any();
  if (all_notes) *all_notes = notes;
  return plan;
}

const std::string eight = "a slots=2\nb slots=2\nc slots=2\nd slots=2\n";

std::string error_in(const std::string& flags, const std::string& ranks = eight, const Job& job = job_of(8)) {
  return error_message([&] { plan_of(flags, ranks, job); });
}

/// Returns the number of layers of each stage of the first pipeline.
std::vector<int> split(const std::string& flags, int layers) {
  std::vector<int> counts;
  const Plan plan = plan_of(flags, eight, job_of(layers));
  for (const Stage& stage : plan.pipelines.front().stages)
    counts.push_back(stage.layers.second - stage.layers.first);
  return counts;
}

std::vector<std::optional<int>> ranks_in(const std::string& text) {
  InputErrors errors;
  const Topology topology = hosts(4, 2);
  DeviceResolver resolver(topology, errors);
  auto ranks = read_ranks(text, "ranks", resolver, errors);
  errors.throw_if_any();
  return ranks;
}

std::string error_in_ranks(const std::string& text) {
  return error_message([&] { ranks_in(text); });
}

std::optional<PipelineLayout> layout(const std::string& text) {
  InputErrors errors;
  auto layers = parse_layout(text, "flags:1:1", errors);
  errors.throw_if_any();
  return layers;
}

std::string error_in_layout(const std::string& text) {
  return error_message([&] { layout(text); });
}

using Counts = std::vector<int>;
using Ranks = std::vector<std::optional<int>>;

}  // namespace

TEST_CASE("ranks are ordered by tensor then data then pipeline or by tensor then pipeline then data") {
  const auto devices = [&](const Plan& plan, int replica, int stage) {
    return plan.pipelines[at(replica)].stages[at(stage)].devices;
  };
  Job job = job_of(8);
  job.parallelism.tensor = 2;
  const std::string sizes = "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 ";
  // T = P = D = 2, rank = t + 2 (d + 2 p): stage 1 of pipeline 0 has ranks 4 and 5.
  const Plan stages_first = plan_of(sizes, eight, job);
  CHECK(stages_first.tensor == 2);
  CHECK(devices(stages_first, 0, 0) == Counts{0, 1});
  CHECK(devices(stages_first, 0, 1) == Counts{4, 5});
  CHECK(devices(stages_first, 1, 0) == Counts{2, 3});
  // rank = t + 2 (p + 2 d): stage 1 of pipeline 0 has ranks 2 and 3.
  const Plan pipelines_first = plan_of(sizes + "--use-tp-pp-dp-mapping", eight, job);
  CHECK(devices(pipelines_first, 0, 1) == Counts{2, 3});
  CHECK(devices(pipelines_first, 1, 0) == Counts{4, 5});
  CHECK(pipelines_first.pipelines[1].micro_batches == 12);  // half of 24
}

TEST_CASE("layers are split as the flags define") {
  const std::string four = "--pipeline-model-parallel-size 4 ";
  CHECK(split(four, 8) == Counts{2, 2, 2, 2});
  CHECK(split(four + "--decoder-first-pipeline-num-layers 1 --decoder-last-pipeline-num-layers=3", 8) ==
        Counts{1, 2, 2, 3});
  CHECK(split(four + "--decoder-first-pipeline-num-layers 5", 8) == Counts{5, 1, 1, 1});
  // 10 layers plus embedding and loss make 12, three per stage.
  CHECK(split(four + "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split", 10) ==
        Counts{2, 3, 3, 2});
  CHECK(split(four + "--pipeline-model-parallel-layout Et\\|t*2\\|(t*2,)*2'|L'", 7) == Counts{1, 2, 4, 0});
  CHECK(split("--num-layers 8 # one stage\n", 8) == Counts{8});
}

TEST_CASE("flags are found in the forms that launch scripts use") {
  // In a list, in variables on one line and on several, and with backslashes at the ends of lines.
  const std::vector<std::string> scripts = {
      "ARGS=(\n  --pipeline-model-parallel-size 2\n  --pipeline-model-parallel-layout 'Et*3|t*5L'\n)\n",
      "ARGS=\"--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Et*3|t*5L\"\n",
      "ARGS=\"\n --pipeline-model-parallel-size 2 \\\n --pipeline-model-parallel-layout Et*3|t*5L\n\"\n",
      "run --pipeline-model-parallel-size \\\r\n 2 --pipeline-model-parallel-layout=\"Et*3\"'|'t*5L | tee 'a "
      "log'",
  };
  for (const std::string& script : scripts) CHECK(split(script, 8) == Counts{3, 5});
  CHECK(error_in("# --num-layers 9\n--num-layers $LAYERS") ==
        "flags:2:14: --num-layers: expected a whole number from 1 to 1000000000; found `$LAYERS` (variables "
        "are not "
        "expanded)");
}

TEST_CASE("virtual stages become the chunks of an interleaved schedule") {
  Job job = job_of(10);
  job.execution.schedule = Schedule::interleaved;
  job.execution.chunks = 2;
  const auto ends = [&](const std::string& flags) {
    Counts layers;
    const Plan plan = plan_of("--pipeline-model-parallel-size 2 " + flags, eight, job);
    for (const Stage& stage : plan.pipelines.front().stages) layers.push_back(stage.layers.second);
    return layers;
  };
  // Rank 0 has the layout's stages 0 and 2, rank 1 has stages 1 and 3: 2 + 2 and 3 + 3 layers.
  CHECK(ends("--pipeline-model-parallel-layout \"Ett|ttt|tt|tttL\"") == Counts{4, 10});
  job.model = Transformer{8, 8, 2, 16, 100};
  CHECK(ends("--num-virtual-stages-per-pipeline-rank 2") == Counts{4, 8});
  CHECK(ends("--num-layers-per-virtual-pipeline-stage 2") == Counts{4, 8});
  CHECK(error_message([&] { ends("--num-layers-per-virtual-pipeline-stage 3"); }) ==
        "flags:1:74: --num-layers-per-virtual-pipeline-stage 3 does not divide the 4 layers of a "
        "pipeline rank\n"
        "flags: virtual stages per device: 1, but job small has schedule interleaved with 2; give the job "
        "schedule 1f1b");
  CHECK(error_in("--num-virtual-stages-per-pipeline-rank 2") ==
        "flags: virtual stages per device: 2, but job small has schedule 1f1b with 1; give the job schedule "
        "interleaved and chunks 2");
}

TEST_CASE("virtual stages have the layers that flags give them, or none") {
  using Layers = std::vector<std::pair<int, int>>;
  const auto layers_of = [](int layers, int stages, const std::string& flags, const std::string& ranks,
                            std::vector<std::string>* notes = nullptr) {
    Job job = job_of(layers);
    job.execution.schedule = Schedule::interleaved;
    job.execution.chunks = 2;
    const Plan plan =
        plan_of(fmt::format("--pipeline-model-parallel-size {} {}", stages, flags), ranks, job, notes);
    return virtual_stage_layers(plan.pipelines.front(), 2);
  };
  std::vector<std::string> notes;
  CHECK(layers_of(8, 2, "--pipeline-model-parallel-layout \"Et|tt|ttt|ttL\"", eight, &notes) ==
        Layers{{0, 1}, {1, 3}, {3, 6}, {6, 8}});
  CHECK(std::none_of(notes.begin(), notes.end(),
                     [](const std::string& it) { return it.find("holds no") != std::string::npos; }));
  CHECK(layers_of(5, 2, "--pipeline-model-parallel-layout \"E|ttt||ttL\"", eight) ==
        Layers{{0, 0}, {0, 3}, {3, 3}, {3, 5}});
  // 14 layers, the embedding and the loss are 4 in each virtual stage; 2 layers with them are one in each.
  const std::string account =
      "--num-virtual-stages-per-pipeline-rank 2 --account-for-embedding-in-pipeline-split "
      "--account-for-loss-in-pipeline-split";
  CHECK(layers_of(14, 2, account, eight) == Layers{{0, 3}, {3, 7}, {7, 11}, {11, 14}});
  CHECK(layers_of(2, 2, account, eight) == Layers{{0, 0}, {0, 1}, {1, 2}, {2, 2}});
  // The layout of Megatron-LM's issue 1852, here with 8 ranks: a layer, then two in each stage, then the
  // loss.
  notes.clear();
  const Layers layers = layers_of(29, 8, "--pipeline-model-parallel-layout \"Et|(tt|)*14L\"", eight, &notes);
  CHECK(layers.front() == std::pair(0, 1));
  CHECK(layers[14] == std::pair(27, 29));
  CHECK(layers[15] == std::pair(29, 29));
  CHECK(std::any_of(notes.begin(), notes.end(),
                    [](const std::string& it) { return it.find("holds no") != std::string::npos; }));
}

TEST_CASE("all wrong flags and contradictions to the job or each other are reported") {
  CHECK(error_in("--num-layers 9 --hidden-size=16 --num-attention-heads 4 --seq-length 32\n"
                 "--micro-batch-size 2 --global-batch-size 48 --tensor-model-parallel-size 2") ==
        "flags:1:14: --num-layers 9, but job small says layers 8\n"
        "flags:1:70: --seq-length 32, but job small says sequence 16\n"
        "flags:2:20: --micro-batch-size 2, but job small says micro_batch 1\n"
        "flags:2:42: --global-batch-size 48, but job small says global_batch 24\n"
        "flags:2:74: --tensor-model-parallel-size 2, but job small says tensor 1\n"
        "flags:1:16: --hidden-size 16, but job small says hidden 8\n"
        "flags:1:55: --num-attention-heads 4, but job small says heads 2");
  CHECK(
      error_in("--pipeline-model-parallel-size 0 --num-layers --num-layers 8 --num-layers 8") ==
      "flags:1:32: --pipeline-model-parallel-size: expected a whole number from 1 to 1000000000; found `0`\n"
      "flags:1:34: --num-layers requires a value\n"
      "flags:1:75: --num-layers is given twice, first at flags:1:60");
  CHECK(error_in("--pipeline-model-parallel-size 3") ==
        "flags:1:32: the number of ranks in ranks is 8, which is not a multiple of tensor size 1 × pipeline "
        "size 3\n"
        "flags: 8 layers cannot be split evenly over 3 pipeline stages; give a layout "
        "(--pipeline-model-parallel-layout)");
  CHECK(error_in("--tensor-model-parallel-size 1 --expert-tensor-parallel-size 2") ==
        "flags:1:62: --expert-tensor-parallel-size 2: plans divide experts as all layers; expected 1");
  CHECK(error_in("--pipeline-model-parallel-layout E(t*8)mL") ==
        "flags:1:34: the layout has 1 modules for multi-token prediction (m), the job has 0");
  CHECK(error_in("--context-parallel-size 2") ==
        "flags:1:25: --context-parallel-size 2, but job small says context 1");
  CHECK(error_in("--pipeline-model-parallel-size 1", "a\nb\nc\nd\na\n") ==
        "flags: global batch 24 is not a multiple of micro-batch 1 × 5 pipelines");
  CHECK(error_in("--pipeline-model-parallel-layout E(t*8)L --decoder-last-pipeline-num-layers 3") ==
        "flags:1:77: --pipeline-model-parallel-layout cannot be combined with "
        "--decoder-last-pipeline-num-layers");
  CHECK(error_in("--pipeline-model-parallel-layout 'Ettt|ttttL'") ==
        "flags:1:34: the layout has 7 layers (t), the job has 8\n"
        "flags: virtual stages per device: 2, but job small has schedule 1f1b with 1; give the job schedule "
        "interleaved and chunks 2");
  CHECK(error_in("--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout 'Ettt|tt|tttL'") ==
        "flags:1:67: the layout has 3 stages, which is not a multiple of --pipeline-model-parallel-size 2");

  Job chain = job_of(1);
  chain.model = LayerChain{16, std::vector<Layer>(8)};
  CHECK(error_in("--hidden-size 8", eight, chain) ==
        "flags:1:15: --hidden-size, but the model of job small is not a transformer");
}

TEST_CASE("the flags decide a micro-batch that the job leaves open") {
  Job job = job_of(8);
  job.automatic[Setting::micro_batch] = true;
  const Plan plan = plan_of("--micro-batch-size 4 --pipeline-model-parallel-size 4", eight, job);
  CHECK(plan.execution.micro_batch == 4);
  CHECK(plan.pipelines.front().micro_batches * static_cast<int>(plan.pipelines.size()) ==
        6);  // of 24 sequences
  CHECK(error_in("--micro-batch-size 5", eight, job) ==
        "flags:1:20: --micro-batch-size 5 does not divide the global batch of job small, 24");
}

TEST_CASE("first and last stages cannot have more layers than the model") {
  const std::string two = "--pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers ";
  CHECK(error_in(two + "9").find("flags:1:70: exceeds the 8 layers of the model or the 2 pipeline stages") ==
        0);
  CHECK(error_in(two + "5 --decoder-last-pipeline-num-layers 2") ==
        "flags:1:70: 1 layers cannot be split evenly over 0 stages between; give a layout "
        "(--pipeline-model-parallel-layout)");
  CHECK(error_in("--pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 00")
            .find("--decoder-first-pipeline-num-layers: expected a whole number from 1 to") !=
        std::string::npos);
  CHECK(error_in("--decoder-first-pipeline-num-layers 4 --decoder-last-pipeline-num-layers 4")
            .find("flags:1:37: exceeds") == 0);
}

TEST_CASE("a layout is parsed as by Megatron") {
  const auto layers = [](const std::string& text) { return layout(text)->layers; };
  CHECK(layers("Ettt|tt|ttL") == Counts{3, 2, 2});
  CHECK(layers("Et*3|(tt|)*4,L") == Counts{3, 2, 2, 2, 2, 0});
  CHECK(layers("E|((t|)*2t|)*2L") == Counts{0, 1, 1, 1, 1, 1, 1, 0});
  CHECK(layers("EL") == Counts{0});
  CHECK(layout("Et|tmmL") == PipelineLayout{{1, 1}, 2});
  CHECK(layout("Et*3|(tt|)*2,m|L") == PipelineLayout{{3, 2, 2, 0, 0}, 1});  // as DeepSeek-V3's
  CHECK(error_in_layout("") == "flags:1:1: expected one E, the embedding, at the beginning of the layout");
  CHECK(error_in_layout("tE|tL") ==
        "flags:1:1: expected one E, the embedding, at the beginning of the layout");
  CHECK(error_in_layout("EEtL") ==
        "flags:1:1: expected one E, the embedding, at the beginning of the layout");
  CHECK(error_in_layout("Et|Lt") == "flags:1:1: expected one L, the loss, at the end of the layout");
  CHECK(error_in_layout("Et|mtL") ==
        "flags:1:1: expected m, a module for multi-token prediction, after all layers (t) of the layout");
  CHECK(error_in_layout("Et|tm|mL") ==
        "flags:1:1: the modules for multi-token prediction (m) of the layout must be in one stage");
  CHECK(error_in_layout("Et|tLm") == "flags:1:1: expected one L, the loss, at the end of the layout");
  CHECK(error_in_layout("Et x").find(
            "flags:1:1: unexpected ` ` at character 3 of the layout: expected E, t, m, L, |") == 0);
  CHECK(error_in_layout("Et)L") ==
        "flags:1:1: unexpected `)` at character 3 of the layout: no group is open here");
  CHECK(error_in_layout("E(tL") == "flags:1:1: the layout has an unclosed `(`");
  CHECK(error_in_layout("E()*9L") ==
        "flags:1:1: unexpected `)` at character 3 of the layout: the group before it is empty");
  CHECK(error_in_layout("Et*0L") ==
        "flags:1:1: unexpected `*` at character 3 of the layout: expected a number from 1 to 1,000,000 after "
        "it");
  CHECK(error_in_layout("E((t*999)*999)*999L") ==
        "flags:1:1: the layout has more than 1000000 layers and stages");
  CHECK(error_in_layout(std::string(100000, '(')) ==
        "flags:1:1: the layout has more than 32 nested parentheses");
}

TEST_CASE("a pattern of layers is read as by Megatron") {
  const auto pattern = [](const std::string& text) {
    const auto layers = parse_pattern(text);
    std::string found;
    for (const bool it : layers.value_or(LayerPattern())) found += it ? '1' : '0';
    return layers ? found : "none";
  };
  CHECK(pattern("[0]*3+[1]*5") == "00011111");
  CHECK(pattern("([0]*3+[1]*5)") == "00011111");
  CHECK(pattern("[1,0]*3") == "101010");
  CHECK(pattern("([0]+[1]*2)*2*1+[0]") == "0110110");
  CHECK(pattern("[1]*0") == "");
  for (const char* text : {"", "1", "[2]", "[1", "[1]*", "[1]+", "[1]*99999999", "([1]*60000)*2", "[1]x",
                           "[]", "[1]*-1", "__import__('os')"})
    CHECK(pattern(text) == "none");
  CHECK(pattern(std::string(100, '(')) == "none");
  CHECK(format_pattern({false, false, true}) == "[0,0,1]");
  CHECK(format_pattern({false, false, false, true}) == "[0]*3+[1]");
  CHECK(format_pattern(LayerPattern(4, true)) == "[1]*4");
  CHECK(format_pattern({true, false, true, false, true, false}) == "[1,0]*3");
}

TEST_CASE("ranks are read in the formats of Open MPI and Slurm and hostfiles") {
  CHECK(ranks_in("b:1\n\n# the next one is\na:0\n") == Ranks{3, 0});
  CHECK(ranks_in("rank 1=a:1 slot=0-15\nrank 0=b:0 slot=0:*\n") == Ranks{2, 1});
  CHECK(ranks_in("b slots=2\na slots=1\n") == Ranks{2, 3, 0});
  // The ranks of a host take its devices in order, whatever the order of the lines.
  CHECK(ranks_in("c\na\nc\n") == Ranks{4, 0, 5});
  CHECK(ranks_in("rank 2=c slot=0\nrank 0=c slot=1\nrank 1=a slot=0\n") == Ranks{4, 0, 5});
}

TEST_CASE("all errors in ranks are reported") {
  CHECK(error_in_ranks("a:0\ne:0\na:0\nb slots=3\n") ==
        "ranks:2:1: topology hosts has no device or host `e:0`; did you mean `a:0`?\n"
        "ranks:3:1: device a:0 is used twice, first at ranks:1:1\n"
        "ranks:4:1: host b has 2 devices, and all of them have ranks already");
  CHECK(error_in_ranks("rank 1=a\nrank 3=b slot=0 x\nrank 3=c\n") ==
        "ranks:2:17: expected `slot=CORES`; found `x`\n"
        "ranks:3:6: rank 3 is given twice, first at ranks:2:6\n"
        "ranks:1:6: rank 1, but there is no rank 0: ranks are numbered consecutively from 0\n"
        "ranks:2:6: rank 3, but there is no rank 2: ranks are numbered consecutively from 0");
  CHECK(error_in_ranks("rank 0=a\nb\nrank =c\nrank 5\n") ==
        "ranks:2:1: expected `rank N=DEVICE`, N from 0 to 8191; found `b`\n"
        "ranks:3:1: expected `rank N=DEVICE`, N from 0 to 8191; found `rank =c`\n"
        "ranks:4:1: expected `rank N=DEVICE`, N from 0 to 8191; found `rank 5`");
  CHECK(error_in_ranks("a slots=0\n") ==
        "ranks:1:3: expected `slots=N`, N from 1 to 8192, or the end of the line; found `slots=0`");
  CHECK(error_in_ranks("a slots=8000\nb slots=8000\n").find("ranks:2:1: more than 8192 ranks") !=
        std::string::npos);
  CHECK(error_in_ranks("# nothing\n") == "ranks: there are no ranks");
}

TEST_CASE("a flag without a value is not turned off by one") {
  CHECK(error_in("--pipeline-model-parallel-size 8 --use-tp-pp-dp-mapping=false") ==
        "flags:1:34: --use-tp-pp-dp-mapping takes no value; remove the flag to turn it off");
}

TEST_CASE("a note says that flags and job differ in sequence parallelism") {
  const auto notes_of = [](const std::string& more, bool sequence_parallel) {
    Job job = job_of(8);
    job.parallelism.tensor = 2;
    job.parallelism.sequence_parallel = sequence_parallel;
    std::vector<std::string> notes;
    plan_of("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 " + more, eight, job, &notes);
    std::erase_if(
        notes, [](const std::string& note) { return note.find("--sequence-parallel") == std::string::npos; });
    return notes;
  };
  CHECK(notes_of("--sequence-parallel", true).empty());
  CHECK(notes_of("", false).empty());
  CHECK(notes_of("", true) ==
        std::vector<std::string>{"--sequence-parallel is not among the flags, but the "
                                 "plan assumes sequence_parallel: true, as job small says"});
  CHECK(notes_of("--sequence-parallel", false) ==
        std::vector<std::string>{"--sequence-parallel is among the flags, but the plan assumes "
                                 "sequence_parallel: false, as job small says"});
}

TEST_CASE("a note for every flag that differs from the job has both values") {
  using Notes = std::vector<std::string>;
  Job job = job_of(8);
  job.training.precision = Precision::bf16;
  job.training.optimizer = Optimizer::adam_18;
  const auto notes_of = [&](const std::string& more) {
    Notes notes;
    plan_of("--pipeline-model-parallel-size 4 " + more, eight, job, &notes);
    std::erase_if(notes, [](const std::string& note) { return note.starts_with("ranks names hosts"); });
    return notes;
  };
  const std::string same = "--bf16 --attention-backend unfused ";
  CHECK(notes_of(same).empty());
  CHECK(notes_of(same + "--optimizer adam --attention-dropout 1e-1 --ffn-hidden-size 32 "
                        "--normalization LayerNorm --num-query-groups 7")
            .empty());
  CHECK(notes_of(same + "--lr 1 --hidden-dropout 0") ==
        Notes{"flags that are not compared with the job: `--lr`, `--hidden-dropout`"});
  CHECK(
      notes_of("--fp16 --attention-backend unfused --recompute-granularity full --recompute-method uniform "
               "--optimizer sgd --overlap-grad-reduce") ==
      Notes{"--fp16 is among the flags, but the plan assumes precision: bf16, as job small says",
            "--bf16 is not among the flags, but the plan assumes precision: bf16, as job small says",
            "--optimizer sgd is among the flags, but the plan assumes optimizer: adam-18, as job small says",
            "--overlap-grad-reduce is among the flags, but the plan assumes overlap: false, as job small "
            "says",
            "--recompute-granularity full is among the flags, but the plan assumes recompute: none, as job "
            "small says"});
  // Without a flag, Megatron-LM takes flash attention in 16 bits, and with --swiglu 8 h ÷ 3.
  CHECK(
      notes_of("--bf16 --swiglu") ==
      Notes{"--ffn-hidden-size is not among the flags (0 by default), but the plan assumes feed_forward: 32, "
            "as job small says",
            "--swiglu is among the flags, but the plan assumes gated: false, as job small says",
            "--attention-backend is not among the flags (flash by default), but the plan assumes attention: "
            "eager, as job small says"});
  auto& model = std::get<Transformer>(job.model);
  model.head_dim = 6;  // Megatron-LM's default is 8 ÷ 2
  model.qk_norm = QkNorm::head;
  CHECK(notes_of(same + "--kv-channels 6 --qk-layernorm").empty());
  CHECK(
      notes_of(same) ==
      Notes{"--kv-channels is not among the flags (4 by default), but the plan assumes heads of width 6, as "
            "job small says",
            "--qk-layernorm is not among the flags, but the plan assumes qk_norm: true, as job small says"});
  model.head_dim = 0;
  model.qk_norm = QkNorm::none;
  CHECK(
      notes_of(same + "--recompute-activations") ==
      Notes{"--recompute-activations is among the flags, but the plan assumes recompute: none, as job small "
            "says"});
  CHECK(notes_of(same + "--recompute-granularity selective --recompute-modules moe mlp").size() == 2);
  job.execution.recomputation = Recomputation::mlp;
  CHECK(notes_of(same + "--recompute-granularity selective --recompute-modules mlp").empty());
  CHECK(notes_of(same + "--recompute-granularity selective --recompute-modules mlp moe\nwait").empty());
  CHECK(
      notes_of(same + "--recompute-granularity selective --recompute-modules moe") ==
      Notes{"--recompute-modules moe is among the flags, but the plan assumes recompute: mlp (modules mlp), "
            "as job small says"});
  CHECK(notes_of(same + "--recompute-activations").size() == 1);
  CHECK(notes_of(same + "--recompute-granularity selective") ==
        Notes{"--recompute-modules is not among the flags (core_attn by default), but the plan assumes "
              "recompute: mlp (modules mlp), as job small says"});
  job.execution.recomputation = Recomputation::none;
  CHECK(notes_of(same + "--fp16 --fp16 --ffn-hidden-size $FFN").size() == 1);  // its value is not known
  job.execution.recomputation = Recomputation::full;
  CHECK(
      notes_of(same + "--recompute-granularity full --recompute-method block --recompute-num-layers 1") ==
      Notes{"--recompute-method block is among the flags, but the plan assumes recompute: full, as job small "
            "says"});
  job.execution.recompute_layers = 2;
  CHECK(notes_of(same + "--recompute-granularity full --recompute-method block --recompute-num-layers 2")
            .empty());
  CHECK(notes_of(same + "--recompute-granularity full --recompute-method uniform --recompute-num-layers 2") ==
        Notes{"--recompute-method uniform is among the flags, but the plan assumes recompute: full in "
              "the first 2 layers of every stage, as job small says"});
}

TEST_CASE("recomputed modules of a model given layer by layer are compared") {
  Job job;
  job.name = "chain";
  job.model = LayerChain{.layers = {Layer{}}};
  job.execution.recomputation = Recomputation::mlp;
  InputErrors errors;
  const auto differences = [&](const std::string& modules) {
    const MegatronFlags flags("--recompute-granularity selective --recompute-modules " + modules, "a.sh",
                              errors);
    std::vector<std::string> lines = megatron_differences(flags, {job});
    std::erase_if(lines, [](const std::string& line) { return !line.starts_with("--recompute-modules"); });
    return lines;
  };
  CHECK(differences("mlp").empty());
  CHECK(differences("moe") ==
        std::vector<std::string>{"--recompute-modules moe is among the flags, but the plan assumes "
                                 "recompute: mlp (modules mlp), as job chain says"});
}

TEST_CASE("flags of experts and latent attention and windows are compared with the job") {
  using Notes = std::vector<std::string>;
  Job job = job_of(4);
  job.training.precision = Precision::bf16;
  job.training.optimizer = Optimizer::adam_18;
  auto& model = std::get<Transformer>(job.model);
  model.learned_positions = model.tied = false;
  const std::string common =
      "--bf16 --position-embedding-type rope --untie-embeddings-and-output-weights --attention-backend "
      "unfused "
      "--pipeline-model-parallel-size 4 ";
  const auto notes_of = [&](const std::string& more) {
    Notes notes;
    plan_of(common + more, eight, job, &notes);
    std::erase_if(notes, [](const std::string& note) { return note.starts_with("ranks names hosts"); });
    return notes;
  };
  CHECK(notes_of("--num-experts 8 --moe-router-topk 3") ==
        Notes{"--num-experts 8 is among the flags, but the plan assumes a dense model, as job small says"});
  CHECK(notes_of("--moe-router-topk 3").empty());  // without experts

  model.experts = {.count = 8, .per_token = 2, .width = 16, .biases = true, .router_bias = true};
  model.blocks.assign(4, {Mixer::attention, Mlp::experts});
  model.blocks[0].mlp = model.blocks[2].mlp = Mlp::dense;
  const std::string experts =
      "--num-experts 8 --moe-ffn-hidden-size 16 --moe-router-dtype fp32 --moe-grouped-gemm "
      "--moe-token-dispatcher-type alltoall ";
  CHECK(notes_of(experts + "--moe-layer-freq '([0]+[1])*2'").empty());
  CHECK(notes_of(experts + "--moe-layer-freq 2 --moe-router-topk 1 --moe-expert-capacity-factor 1.5") ==
        Notes{"--moe-layer-freq 2 is among the flags, but the plan assumes experts in layers [0,1]*2, as job "
              "small says",
              "--moe-router-topk 1 is among the flags, but the plan assumes experts.per_token: 2, as job "
              "small says",
              "--moe-expert-capacity-factor 1.5 is among the flags, but the plan assumes experts that drop "
              "no token, as job small says"});
  CHECK(
      notes_of("") ==
      Notes{
          "--num-experts is not among the flags, but the plan assumes experts.count: 8, as job small says"});

  model = Transformer{4, 8, 2, 16, 100};
  model.learned_positions = model.tied = false;
  model.biases = {true, false, false, false};
  model.window = 5;
  model.blocks.assign(4, {Mixer::window_attention, Mlp::dense});
  model.blocks[1].mixer = model.blocks[3].mixer = Mixer::attention;
  const std::string biases = "--disable-bias-linear --add-qkv-bias ";
  for (const char* freq : {"2", "[1,0,1,0]"})
    CHECK(notes_of(biases + "--window-size (4,0) --window-attn-skip-freq " + freq).empty());
  const auto blocks = model.blocks;
  model.blocks.clear();
  for (const char* freq : {"", "--window-attn-skip-freq [1]*4"})
    CHECK(notes_of(biases + "--window-size 4,0 " + freq).empty());
  model.blocks = blocks;
  CHECK(notes_of("--disable-bias-linear --window-size 5,0") ==
        Notes{"--add-qkv-bias is not among the flags, but the plan assumes biases: [qkv], as job small says",
              "--window-size 5,0 is among the flags, but the plan assumes window: 5, as job small says",
              "--window-attn-skip-freq is not among the flags ([1]*4 by default), but the plan assumes "
              "windows in layers "
              "[1,0]*2, as job small says"});

  model = Transformer{4, 8, 2, 16, 100};
  model.learned_positions = model.tied = false;
  model.biases = no_biases;
  model.latent = {.kv_rank = 32, .query_rank = 6, .nope_dim = 4, .rope_dim = 2, .value_dim = 3};
  model.predicted_tokens = 1;
  const std::string latent =
      "--disable-bias-linear --multi-latent-attention --qk-layernorm --qk-head-dim 4 --qk-pos-emb-head-dim "
      "2 ";
  CHECK(notes_of(latent + "--q-lora-rank 6 --v-head-dim 3 --mtp-num-layers 1 --kv-channels 128").empty());
  CHECK(notes_of(latent + "--v-head-dim 5") ==
        Notes{"--q-lora-rank is not among the flags, but the plan assumes latent_attention.query_rank: 6, as "
              "job small says",
              "--v-head-dim 5 is among the flags, but the plan assumes latent_attention.value_dim: 3, as job "
              "small says",
              "--mtp-num-layers is not among the flags, but the plan assumes predicted_tokens: 1, as job "
              "small says"});
}

TEST_CASE("a note says that flags and job differ in optimizer sharding") {
  const auto notes_of = [](const std::string& more, OptimizerSharding sharding) {
    Job job = job_of(8);
    job.execution.optimizer_sharding = sharding;
    std::vector<std::string> notes;
    plan_of("--pipeline-model-parallel-size 4 " + more, eight, job, &notes);
    std::erase_if(notes, [](const std::string& note) {
      return note.find("--use-distributed-optimizer") == std::string::npos;
    });
    return notes;
  };
  CHECK(notes_of("--use-distributed-optimizer", OptimizerSharding::zero1).empty());
  CHECK(notes_of("", OptimizerSharding::none).empty());
  CHECK(notes_of("--use-distributed-optimizer", OptimizerSharding::none) ==
        std::vector<std::string>{"--use-distributed-optimizer is among the flags, but the plan assumes "
                                 "optimizer_sharding: none, as job small says"});
}
