// Checks that exported files describe the plan, for any plan, and that files which contradict it are
// detected.
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/base/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/export_examples.hpp"
#include "tests/support/repetitions.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {
using namespace exporter;
namespace {

/// Returns the constraints of a target on plans.
PlanConstraints kind_for(std::string_view name) {
  PlanConstraints kind;
  kind.is_uniform = name != "pytorch";
  const auto target = find_exporter(name).target;
  kind.max_tensor = (target && !traits(*target).tensor_parallelism) || name == "petals" ? 1 : 3;
  kind.is_llama = requires_llama(name);
  return kind;
}

ExportBundle bundle_for(Rng& rng, const Exporter& exporter) {
  const RankOrder order = exporter.is_trainer
                              ? exporter.orders[rng.below(static_cast<std::uint32_t>(exporter.orders.size()))]
                              : RankOrder(rng.below(2));
  ExportBundle bundle = arbitrary_bundle(rng, kind_for(exporter.name), order);
  while (exporter.name == "dtfm" && bundle.plan.pipelines.front().stages.size() == 1)
    bundle = arbitrary_bundle(rng, kind_for(exporter.name), order);
  // torchtitan fills pipelines with 1F1B.
  while (exporter.name == "torchtitan" && bundle.plan.pipelines.front().micro_batches <
                                              static_cast<int>(bundle.plan.pipelines.front().stages.size()))
    bundle = arbitrary_bundle(rng, kind_for(exporter.name), order);
  bundle.launch.any_gpu = true;
  const Exporter* target = &exporter;
  return run_on_trainer(std::move(bundle), {&target, 1});
}

constexpr std::uint64_t seeds = repetitions(200);

const Exporter* netem() {
  return &find_exporter("netem");
}

TEST_CASE("any plan reads back unchanged from the files of every target") {
  for (const Exporter& exporter : exporters()) {
    if (&exporter == netem()) continue;  // requires a topology, see launch.py
    for (std::uint64_t seed = 0; seed < seeds; ++seed) {
      INFO(exporter.name << ", seed " << seed);
      Rng rng = Rng::for_task(seed, 0);
      const ExportBundle bundle = bundle_for(rng, exporter);
      const Exporter* target = &exporter;
      const ExportFiles files = export_files(bundle, {&target, 1});
      CHECK(exporter.read_back(files, bundle).rows == rank_rows(bundle));
      CHECK(parse_rank_table(file_text(files, rank_table_file), "table") == rank_rows(bundle));
    }
  }
}

/// Returns a bundle with one machine per pipeline, so that the ranks of each are contiguous.
ExportBundle block_layout_bundle(Rng& rng) {
  ExportBundle bundle = arbitrary_bundle(rng, {true, 2}, RankOrder::pipeline_major);
  for (const Pipeline& pipeline : bundle.plan.pipelines) {
    int gpu = 0;
    const std::string host = fmt::format("machine {}", &pipeline - bundle.plan.pipelines.data());
    std::vector<int> gpus;
    for (const Stage& stage : pipeline.stages)
      for (std::size_t i = 0; i < stage.devices.size(); ++i) gpus.push_back(gpu++);
    rng.shuffle(std::span<int>(gpus));
    for (const Stage& stage : pipeline.stages)
      for (const int device : stage.devices) {
        bundle.locations[at(device)] = {host, fmt::format("10.0.0.{}", host.back()), gpus.back()};
        gpus.pop_back();
      }
  }
  bundle.launch.agents = AgentPer::host;
  return bundle;
}

TEST_CASE("one agent per machine works with addresses that differ from the machines' names") {
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 2);
    const ExportBundle bundle = block_layout_bundle(rng);
    const Exporter* target = &find_exporter("torchrun");
    const ExportFiles files = export_files(bundle, {&target, 1});
    const auto rows = parse_rank_table(file_text(files, rank_table_file), "table");
    CHECK(rows == rank_rows(bundle));
    CHECK(rows.back().node_rank + 1 == static_cast<int>(bundle.plan.pipelines.size()));
    CHECK(rows.back().address == bundle.location(bundle.world_size() - 1).address);
  }
}

/// Experts, latent attention, windows and the like in any combination that Megatron-LM builds.
Transformer arbitrary_model(Rng& rng, int layers) {
  const auto below = [&](int bound) {
    return static_cast<int>(rng.below(static_cast<std::uint32_t>(bound)));
  };
  Transformer model = llama_of(layers);
  if (below(2) == 0) {
    model.latent = {.kv_rank = 1 << below(10),
                    .query_rank = 64 * below(3),
                    .nope_dim = 32,
                    .rope_dim = 16 << below(3),
                    .value_dim = 32};
  } else {
    model.biases.qkv = below(2) == 0;
    model.head_dim = 32 * below(5);
    model.qk_norm = below(2) == 0 ? QkNorm::head : QkNorm::none;
    model.window = 64 * below(2);
    model.attention_sinks = below(2) == 0;
  }
  if (below(3) > 0)
    model.experts = {.count = 8 << below(3),
                     .per_token = 1 + below(4),
                     .width = 64,
                     .shared_width = 64 * below(3),
                     .shared_gate = below(2) == 0};
  if (below(2) == 0)
    for (int layer = 0; layer < layers; ++layer)
      model.blocks.push_back({model.window > 0 && below(2) == 0 ? Mixer::window_attention : Mixer::attention,
                              model.experts.count > 0 && below(2) == 0 ? Mlp::experts : Mlp::dense});
  if (model.blocks.empty() || model.window == 0) model.predicted_tokens = below(3);
  model.flash_attention = below(2) == 0;
  return model;
}

TEST_CASE("any model that Megatron builds reads back from its flags") {
  const Exporter* target = &find_exporter("megatron");
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 5);
    ExportBundle bundle = arbitrary_bundle(rng, {true, 2}, RankOrder(rng.below(2)));
    bundle.job.training.precision = Precision::bf16;
    bundle.job.model = arbitrary_model(rng, 24);
    bundle = run_on_trainer(std::move(bundle), {&target, 1});
    const ExportFiles files =
        export_files(bundle, {&target, 1});  // asserts that no flag differs from the job
    CHECK(target->read_back(files, bundle).rows == rank_rows(bundle));
  }
}

TEST_CASE("any plan with virtual stages or empty stages reads back from Megatron's flags") {
  const Exporter* target = &find_exporter("megatron");
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    Rng rng = Rng::for_task(seed, 3);
    ExportBundle bundle = arbitrary_bundle(rng, {true, 2}, RankOrder(rng.below(2)));
    const int stages = static_cast<int>(bundle.plan.pipelines.front().stages.size());
    const int chunks = stages < 2 ? 1 : 1 + static_cast<int>(rng.below(3));
    const bool is_even = rng.below(2) == 0;
    const auto split = random_split(rng, 24, stages, chunks > 1 && is_even ? chunks : 0);
    for (Pipeline& pipeline : bundle.plan.pipelines) {
      pipeline.micro_batches = 2 * stages;
      for (int s = 0; s < stages; ++s) pipeline.stages[at(s)].layers = split[at(s)];
    }
    bundle.job.training.global_batch =
        2 * stages * bundle.job.execution.micro_batch * static_cast<int>(bundle.plan.pipelines.size());
    if (chunks > 1) {
      bundle.job.execution.schedule = Schedule::interleaved;
      bundle.job.execution.chunks = chunks;
    }
    bundle.plan.execution = bundle.job.execution;
    if (!is_even) {
      split_virtual_stages(rng, bundle.plan);  // of the first pipeline; Megatron-LM's are equal
      for (Pipeline& pipeline : bundle.plan.pipelines)
        for (int s = 0; s < stages; ++s)
          pipeline.stages[at(s)].virtual_layers = bundle.plan.pipelines[0].stages[at(s)].virtual_layers;
    }
    bundle = run_on_trainer(std::move(bundle), {&target, 1});
    bundle.assignments = assign_ranks(bundle.plan, bundle.job, bundle.order);
    const ExportFiles files = export_files(bundle, {&target, 1});
    CHECK(target->read_back(files, bundle).rows == rank_rows(bundle));
  }
}

TEST_CASE("each rank order follows the rule of the trainers") {
  // The rules, written independently: rank = t + T (d + D p) and t + T (p + P d).
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    for (const RankOrder order : {RankOrder::stage_major, RankOrder::pipeline_major}) {
      Rng rng = Rng::for_task(seed, 1);
      const ExportBundle bundle = arbitrary_bundle(rng, {true, 3}, order);
      const auto& stages = bundle.plan.pipelines.front().stages;
      const int T = static_cast<int>(stages.front().devices.size()), P = static_cast<int>(stages.size()),
                D = static_cast<int>(bundle.plan.pipelines.size());
      REQUIRE(bundle.world_size() == T * P * D);
      for (int d = 0; d < D; ++d)
        for (int p = 0; p < P; ++p)
          for (int t = 0; t < T; ++t) {
            const int rank = order == RankOrder::stage_major ? t + T * (d + D * p) : t + T * (p + P * d);
            const Stage& stage = bundle.plan.pipelines[at(d)].stages[at(p)];
            CHECK(bundle.assignments[at(rank)] ==
                  RankAssignment{stage.devices[at(t)], d, p, t, {stage.layers}});
          }
    }
  }
}

/// Returns the same files with one digit of one of them changed.
ExportFiles with_changed_digit(ExportFiles files, std::string_view name, std::size_t location) {
  for (ExportFile& file : files)
    if (file.name == name)
      file.text[location] = file.text[location] == '9' ? '8' : static_cast<char>(file.text[location] + 1);
  return files;
}

/// Whether these files read back as a different plan or are rejected.
bool is_rejected(const Exporter& exporter, const ExportFiles& files, const ExportBundle& bundle) {
  try {
    const ReadBack read = exporter.read_back(files, bundle);
    if (read.rows != rank_rows(bundle)) return true;
    return !read.micro_batches.empty() &&
           read.micro_batches.front() != bundle.plan.pipelines.front().micro_batches;
  } catch (const std::exception&) {
    return true;
  }
}

/// Returns the position of the first digit after `key` in a file.
std::size_t digit_after(const std::string& text, std::string_view key) {
  return text.find_first_of("0123456789", text.find(key) + key.size());
}

TEST_CASE("files that contradict the plan are detected") {
  struct Case {
    const char *target, *file, *key;
  };
  const Case cases[] = {{"megatron", "megatron.sh", "--pipeline-model-parallel-size"},
                        {"megatron", "megatron.sh", "--global-batch-size"},
                        {"torchtitan", "dtfm_plan.py", "\"layers."},
                        {"torchtitan", "dtfm_plan.py", "pipeline_parallel_degree="},
                        {"torchtitan", "dtfm_plan.py", "local_batch_size="},
                        {"torchtitan", "dtfm_plan.py", "data_parallel_shard_degree="},
                        {"deepspeed", "ds_config.json", "gradient_accumulation_steps"},
                        {"deepspeed", "pipeline.json", "\"layers\": ["},
                        {"deepspeed", "pipeline.json", "replicas"},
                        {"deepspeed", "start.sh", "\n  \""},
                        {"pytorch-pipelining", "pipeline.json", "\"layers\": ["},
                        {"pytorch-pipelining", "pipeline.json", "\"micro_batches\": "},
                        {"pytorch-pipelining", "pipeline.json", "\"chunks\": "},
                        {"pytorch-pipelining", "pipeline.json", "\"context\": "},
                        {"pytorch-pipelining", "schedule.csv", "F0,"},
                        {"pytorch-pipelining", "start.sh", "0 gc "},
                        {"pytorch", "start.sh", "0 gc "},
                        {"dtfm", "dtfm.sh", "\n  \""},
                        {"dtfm", "dtfm.sh", "--batch-size"},
                        {"pytorch", "program.json", "chunks"},
                        {"pytorch", "program.json", "micro_batches"},
                        {"petals", "petals.sh", "stage-0 gc"},
                        {"torchrun", "torchrun.sh", "\n  \""},
                        {"slurm", "rank-env.sh", "gpus=("},
                        {"openmpi", "rankfile", "rank "},
                        {"kubernetes", "kubernetes.json", "\"RANK\", \"value\": \""}};
  for (const Case& it : cases) {
    const Exporter& exporter = find_exporter(it.target);
    ExportChoices choices;
    choices.launch.any_gpu = true;
    const Exporter* target = &exporter;
    choices.order = choose_rank_order({&target, 1}, {});
    const ExportBundle bundle = run_on_trainer(
        read_export_bundle({"plan.json", example_for(it.target)}, std::nullopt, choices), {&target, 1});
    const ExportFiles files = export_files(bundle, {&target, 1});
    REQUIRE_FALSE(is_rejected(exporter, files, bundle));
    const std::size_t location = digit_after(file_text(files, it.file), it.key);
    INFO(it.target << ", " << it.file << " behind " << it.key << ", place " << location);
    REQUIRE(location != std::string::npos);
    CHECK(is_rejected(exporter, with_changed_digit(files, it.file, location), bundle));
  }
}

/// The worked example with twelve layers, and settings that `n` chooses, run by the target.
ExportBundle bundle_with_settings(const Exporter* target, std::size_t n) {
  const auto pick = [&](const auto& values) {
    const auto value = *(std::begin(values) + static_cast<std::ptrdiff_t>(n % std::size(values)));
    n /= std::size(values);
    return value;
  };
  ExportBundle bundle = read_export_bundle({"plan.json", example_for(target->name)}, std::nullopt, {});
  std::get<Transformer>(bundle.job.model).layers = 12;
  bundle.job.training.global_batch = 24;
  bundle.job.training.precision = pick(std::array{Precision::fp32, Precision::tf32, Precision::bf16});
  bundle.job.training.optimizer = pick(std::array{Optimizer::adam_16, Optimizer::sgd_12, Optimizer::sgd_8});
  ExecutionConfig execution;
  execution.micro_batch = 1;
  execution.gradient_sync = GradientSync::ring;
  execution.schedule = pick(traits(*target->target).schedules);
  execution.recomputation = pick(std::array{Recomputation::none, Recomputation::full});
  execution.optimizer_sharding = pick(std::array{OptimizerSharding::none, OptimizerSharding::zero1});
  execution.flush = pick(std::array{std::optional<int>(), std::optional(6)});
  if (traits(execution.schedule).has_chunks) execution.chunks = 2;
  bundle.job.execution = bundle.plan.execution = execution;
  for (Pipeline& pipeline : bundle.plan.pipelines) {
    pipeline.micro_batches = 12;
    for (int s = 0; s < 3; ++s) pipeline.stages[at(s)].layers = {4 * s, 4 * s + 4};
  }
  bundle = run_on_trainer(bundle, {&target, 1});
  bundle.assignments = assign_ranks(bundle.plan, bundle.job, RankOrder::stage_major);
  return bundle;
}

/// export_files compares all that is read back.
TEST_CASE(
    "all settings that DeepSpeed and torchtitan and torch's pipelining run read back from their files") {
  // Precision, optimizer, recomputation and sharding, which DeepSpeed always does in bf16; schedule and
  // flush. Of PyTorch's schedules, two split backward passes, and those only without recomputation.
  // torchtitan has one optimizer per precision and no flushes.
  const std::pair<const char*, std::size_t> combinations[] = {
      {"deepspeed", 3 * 3 * 2 * 2 - 3 * 2},
      {"torchtitan", 3 * 2 * (6 + 4)},
      {"pytorch-pipelining", (3 * 3 - 1) * 2 * (7 + 5) * 2}};
  for (const auto& [name, expected] : combinations) {
    const Exporter* target = &find_exporter(name);
    const std::size_t count = 3 * 3 * traits(*target->target).schedules.size() * 2 * 2 * 2;
    std::set<std::map<Setting, std::string>> found;
    for (std::size_t n = 0; n < count; ++n) {
      CAPTURE(name, n);
      const ExportBundle bundle = bundle_with_settings(target, n);
      found.insert(target->read_back(export_files(bundle, {&target, 1}), bundle).settings);
    }
    CHECK(found.size() == expected);
  }
}

TEST_CASE("a table of torchtitan that contradicts the plan is detected") {
  std::string plan = example_for("torchtitan");
  const std::string_view given = "\"schedule\": \"1f1b\"";
  plan.replace(plan.find(given), given.size(), "\"schedule\": \"zb-h1\"");
  const Exporter* target = &find_exporter("torchtitan");
  const ExportBundle bundle =
      run_on_trainer(read_export_bundle({"plan.json", plan}, std::nullopt, {}), {&target, 1});
  const ExportFiles files = export_files(bundle, {&target, 1});
  REQUIRE_FALSE(is_rejected(*target, files, bundle));
  for (const char* cell : {"0F1", "1I2", "2W3"})
    CHECK(is_rejected(*target,
                      with_changed_digit(files, "zb-h1.csv", file_text(files, "zb-h1.csv").find(cell) + 2),
                      bundle));
  ExportFiles unchecked = files;
  for (ExportFile& it : unchecked)
    if (const std::size_t found = it.text.find("donated_buffer = False"); found != it.text.npos)
      it.text.erase(found, 22);
  CHECK(is_rejected(*target, unchecked, bundle));
}

/// Four pipelines of one device, at sites a and b in turn.
ExportBundle two_site_bundle(Target target) {
  ExportBundle bundle;
  bundle.job.model = llama_of(4);
  bundle.job.training.global_batch = 4;
  bundle.job.execution.micro_batch = 1;
  bundle.job.execution.gradient_sync = GradientSync::hierarchical;
  bundle.job.execution.optimizer_sharding = OptimizerSharding::zero1;
  bundle.plan.execution = bundle.job.execution;
  bundle.order = traits(target).orders.front();
  Topology topology = flat_topology({2, 2}, link_of(0, 1e8), link_of(0, 1e8));
  for (int i = 0; i < 4; ++i) {
    bundle.plan.pipelines.push_back({1, {{{0, 4}, {i}}}});
    topology.devices[at(i)].site = i % 2;
    const std::string host = fmt::format("m{}", i);
    bundle.locations.push_back({host, host, 0});
    bundle.topology_device.push_back(i);
  }
  bundle.topology = std::make_shared<Topology>(topology);
  return bundle;
}

TEST_CASE("an export gives each optimizer instance consecutive ranks at one site") {
  struct Case {
    const char *target, *file, *text;
  };
  for (const Case& it : {Case{"megatron", "megatron.sh", "--num-distributed-optimizer-instances 2\n"},
                         Case{"torchtitan", "dtfm_plan.py",
                              "data_parallel_replicate_degree=2,\n            data_parallel_shard_degree=2,"},
                         Case{"pytorch-pipelining", "pipeline.json", "\"instances\": 2,"}}) {
    CAPTURE(it.target);
    const Exporter* target = &find_exporter(it.target);
    ExportBundle bundle = two_site_bundle(*target->target);
    const ExportBundle run = run_on_trainer(bundle, {&target, 1});
    CHECK(run.job.execution.gradient_sync == GradientSync::hierarchical_ring);
    std::vector<int> devices;
    for (const RankAssignment& rank : run.assignments) devices.push_back(rank.device);
    CHECK(devices == std::vector{0, 2, 1, 3});
    const ExportFiles files = export_files(run, {&target, 1});
    CHECK_THAT(file_text(files, it.file), contains(it.text));
    bundle.topology = nullptr;
    CHECK(error_message([&] {
            run_on_trainer(bundle, {&target, 1});
          }) ==
          fmt::format(
              "{}: gradient_sync hierarchical-ring depends on the sites of the network; add --topology FILE",
              it.target));
  }
}

TEST_CASE("with virtual stages a device has layers from several ranges") {
  // 2 chunks over 3 stages of 4/4/4 layers: chunk 0 of each has layers 0-2, 2-4, 4-6, chunk 1 has 6-8, 8-10,
  // 10-12.
  ExportBundle bundle;
  bundle.job.model = llama_of(12);
  bundle.job.training.global_batch = 6;
  bundle.job.execution.micro_batch = 1;
  bundle.job.execution.schedule = Schedule::interleaved;
  bundle.job.execution.chunks = 2;
  bundle.plan.pipelines = {{6, {{{0, 4}, {0}}, {{4, 8}, {1}}, {{8, 12}, {2}}}}};
  bundle.locations = {{"a", "a", 0}, {"b", "b", 0}, {"c", "c", 0}};
  bundle.plan.execution = bundle.job.execution;
  bundle.assignments = assign_ranks(bundle.plan, bundle.job, RankOrder::stage_major);
  CHECK(bundle.assignments[1].layers == std::vector<std::pair<int, int>>{{2, 4}, {8, 10}});
  for (const char* name : {"megatron", "torchtitan", "pytorch-pipelining"}) {
    const Exporter* target = &find_exporter(name);
    const ExportFiles files = export_files(run_on_trainer(bundle, {&target, 1}), {&target, 1});
    if (std::string_view(name) == "megatron")
      CHECK(file_text(files, "megatron.sh").find("\"Ett|tt|tt|tt|tt|ttL\"") != std::string::npos);
    CHECK(file_text(files, rank_table_file).find("\"layers\":[[2,4],[8,10]]") != std::string::npos);
  }
  // Device 1 has 3 layers in chunk 0 and 1 in chunk 1, device 2 the reverse.
  bundle.plan.pipelines[0].stages[1].virtual_layers = {3, 1};
  bundle.plan.pipelines[0].stages[2].virtual_layers = {1, 3};
  bundle.assignments = assign_ranks(bundle.plan, bundle.job, RankOrder::stage_major);
  CHECK(bundle.assignments[1].layers == std::vector<std::pair<int, int>>{{2, 5}, {8, 9}});
  const std::pair<const char*, const char*> expected[] = {
      {"megatron", "\"Ett|ttt|t|tt|t|tttL\""},
      {"torchtitan", "[\"layers.2\",\"layers.3\",\"layers.4\"],"},
      {"pytorch-pipelining", "\"layers\": [\n  2,\n  3,\n  1,\n  2,\n  1,\n  3\n ]"},
      {"pytorch",
       "\"layers\": [\n      2,\n      5\n     ],\n     \"input_from\": 0,\n     \"output_to\": 2,"}};
  for (const auto& [name, text] : expected) {
    CAPTURE(name);
    const Exporter* target = &find_exporter(name);
    ExportFiles files = export_files(run_on_trainer(bundle, {&target, 1}), {&target, 1});
    const std::string part = text;
    CHECK(std::any_of(files.begin(), files.end(),
                      [&](const ExportFile& it) { return it.text.find(part) != std::string::npos; }));
    CHECK(file_text(files, rank_table_file).find("\"layers\":[[2,5],[8,9]]") != std::string::npos);
  }
}

}  // namespace
}  // namespace dtfm
