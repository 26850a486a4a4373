// What targets run, and what they make of jobs and plans.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "core/plan/settings.hpp"
#include "core/plan/target.hpp"
#include "core/plan/target_requirements.hpp"
#include "core/plan/target_settings.hpp"
#include "tests/support/llama.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/open_settings.hpp"
#include "tests/support/small_problems.hpp"

using namespace dtfm;

namespace {

using Texts = std::vector<std::string>;

Texts format_all(const std::vector<TargetChange>& changes) {
  Texts texts;
  for (const TargetChange& it : changes) texts.push_back(format_change(it));
  return texts;
}

/// GPT with tied embeddings in fp16, as the default job.
Job gpt_job() {
  Job job;
  job.name = "gpt";
  job.model = Transformer{8, 1024, 16, 512, 50257};
  job.training.global_batch = 16;
  return job;
}

/// Llama with an untied head in bf16, which every target trains.
Job llama_job() {
  Job job = gpt_job();
  job.model = llama_of(8);
  job.training.precision = Precision::bf16;
  return job;
}

Transformer& model_of(Job& job) {
  return std::get<Transformer>(job.model);
}

/// Two pipelines of two stages.
Plan uniform_plan(const Job& job) {
  return plan_of(job, 2, 2, 8);
}

}  // namespace

TEST_CASE("every target names something of everything and only what exists without chunks first") {
  std::set<std::string_view> names;
  for (const TargetTraits& it : target_table()) {
    CAPTURE(it.name);
    CHECK(names.insert(it.name).second);
    REQUIRE(!it.schedules.empty());
    REQUIRE(!it.gradient_syncs.empty());
    REQUIRE(!it.recomputations.empty());
    REQUIRE(!it.orders.empty());
    REQUIRE(!it.optimizer_shardings.empty());
    CHECK(it.optimizer_shardings.front() == OptimizerSharding::none);
    CHECK_FALSE(traits(it.schedules.front()).has_chunks);
    for (const GradientSync sync : it.gradient_syncs) CHECK(traits(sync).in_jobs);
    for (const Schedule schedule : it.schedules) CHECK(traits(schedule).in_jobs);
  }
}

TEST_CASE("a target restricts the values that a job lists") {
  Job job = gpt_job();
  job.automatic = {Setting::schedule, Setting::gradient_sync};
  job.listed[Setting::schedule] = {"gpipe", "interleaved", "1f1b-blocking"};
  job.listed[Setting::gradient_sync] = {"sharded-ps", "tree"};  // megatron runs neither
  const Texts changes = format_all(restrict_to_target(job, Target::megatron));
  CHECK(std::count(changes.begin(), changes.end(),
                   "schedule [interleaved, 1f1b-blocking] instead of [gpipe, interleaved, 1f1b-blocking]") ==
        1);
  CHECK(std::count(changes.begin(), changes.end(), "gradient_sync ring instead of [sharded-ps, tree]") == 1);
  CHECK(choices(job, Setting::schedule) == std::vector<SettingValue>{"interleaved", "1f1b-blocking"});
  CHECK(job.execution.schedule == Schedule::one_f_one_b_blocking);  // interleaved would require chunks
  CHECK(job.automatic == SettingSet{Setting::schedule});
  CHECK(first_schedule(job) == Schedule::one_f_one_b_blocking);
}

TEST_CASE("NCCL-based targets turn hierarchical into hierarchical-ring, and only with zero1") {
  const auto restricted = [](GradientSync sync, OptimizerSharding sharding, SettingSet automatic = {}) {
    Job job = llama_job();
    job.execution.gradient_sync = sync;
    job.execution.optimizer_sharding = sharding;
    job.automatic = automatic;
    restrict_to_target(job, Target::megatron);
    return job;
  };
  constexpr OptimizerSharding none = OptimizerSharding::none, zero1 = OptimizerSharding::zero1;
  constexpr GradientSync rings = GradientSync::hierarchical_ring;
  for (const GradientSync sync : {GradientSync::hierarchical, rings}) {
    CHECK(restricted(sync, zero1).execution.gradient_sync == rings);
    CHECK(restricted(sync, none).execution.gradient_sync == GradientSync::ring);
    const Job planned = restricted(sync, none, {Setting::optimizer_sharding});
    CHECK(planned.execution.gradient_sync == rings);
    CHECK(planned.execution.optimizer_sharding == zero1);
    CHECK_FALSE(planned.automatic[Setting::optimizer_sharding]);
  }
  const Job open = restricted(GradientSync::ring, zero1, {Setting::gradient_sync});
  CHECK(choices(open, Setting::gradient_sync) == std::vector<SettingValue>{"ring", "hierarchical-ring"});
  CHECK_FALSE(
      restricted(GradientSync::ring, none, {Setting::gradient_sync}).automatic[Setting::gradient_sync]);
  Job deepspeed = llama_job();
  deepspeed.execution.gradient_sync = rings;
  restrict_to_target(deepspeed, Target::deepspeed);
  CHECK(deepspeed.execution.gradient_sync == GradientSync::ring);
}

TEST_CASE("a target that runs only listed schedules with chunks plans the schedule") {
  Job job = gpt_job();
  job.automatic = {Setting::schedule};
  job.listed[Setting::schedule] = {"gpipe", "interleaved"};
  const Texts changes = format_all(restrict_to_target(job, Target::megatron));
  CHECK(std::count(changes.begin(), changes.end(), "planned schedule instead of [gpipe, interleaved]") == 1);
  CHECK(job.listed.empty());
  CHECK(job.execution.schedule == Schedule::one_f_one_b_blocking);
}

TEST_CASE("a job is restricted to what its target runs") {
  Job job = gpt_job();
  CHECK(format_all(restrict_to_target(job, Target::megatron)) ==
        Texts{"planned schedule instead of gpipe", "gradient_sync ring instead of sharded-ps",
              "optimizer adam-20 instead of adam-16", "uniform_pipelines true instead of false",
              "tied_embedding_sync true instead of false", "messages megatron instead of ahead"});
  CHECK(job.target == Target::megatron);
  CHECK(job.automatic[Setting::schedule]);
  CHECK(job.execution.schedule == Schedule::one_f_one_b_blocking);
  CHECK(is_choice(job, Setting::schedule, name_of(Schedule::interleaved)));
  CHECK_FALSE(is_choice(job, Setting::schedule, name_of(Schedule::gpipe)));
  CHECK(first_schedule(job) == Schedule::one_f_one_b_blocking);
  CHECK(min_stages(job) == 1);
  job.execution.schedule = Schedule::interleaved;
  CHECK(min_stages(job) == 2);
}

TEST_CASE("settings that a target runs are kept and the order of computations where possible") {
  Job job = gpt_job();
  job.model = Transformer{.layers = 8, .hidden = 1024, .heads = 16, .sequence = 512, .tied = false};
  job.training.precision = Precision::bf16;
  job.training.optimizer = Optimizer::sgd_12;
  job.execution.schedule = Schedule::one_f_one_b;
  job.execution.gradient_sync = GradientSync::ring;
  job.execution.overlap = true;
  CHECK(format_all(restrict_to_target(job, Target::megatron)) ==
        Texts{"schedule 1f1b-blocking instead of 1f1b", "optimizer adam-18 instead of sgd-12",
              "uniform_pipelines true instead of false", "messages megatron instead of ahead"});
  job.execution.schedule = Schedule::interleaved;
  job.execution.chunks = 2;
  CHECK(restrict_to_target(job, Target::megatron).empty());
  CHECK(job.execution.chunks == 2);
  CHECK(format_all(restrict_to_target(job, Target::deepspeed)) ==
        Texts{"schedule 1f1b-blocking instead of interleaved", "optimizer_sharding zero1 instead of none",
              "optimizer adam-16 instead of adam-18", "overlap false instead of true",
              "messages deepspeed instead of megatron"});
  CHECK_FALSE(job.execution.chunks);
}

TEST_CASE("changes get the values that the planner decided for what a target leaves open") {
  Job job = gpt_job();
  job.execution.schedule = Schedule::gpipe;
  CHECK(decided_changes({{"parallelism.schedule", "1f1b", "auto"}, {"training.recompute", "none", "full"}},
                        job) == std::vector<TargetChange>{{"parallelism.schedule", "1f1b", "gpipe"},
                                                          {"training.recompute", "none", "full"}});
}

TEST_CASE("open settings stay open unless the target has a single choice") {
  Job job = gpt_job();
  job.automatic = all_open_settings();
  restrict_to_target(job, Target::dtfm);
  CHECK_FALSE(job.automatic[Setting::optimizer_sharding]);
  CHECK(job.automatic[Setting::micro_batch]);
  CHECK(job.automatic[Setting::gradient_sync]);
  CHECK_FALSE(job.automatic[Setting::schedule]);
  CHECK_FALSE(job.automatic[Setting::recompute]);
  CHECK_FALSE(job.automatic[Setting::tensor]);
  CHECK_FALSE(job.automatic[Setting::activations]);
  CHECK(job.execution.schedule == Schedule::gpipe);
  CHECK(job.execution.recomputation == Recomputation::full);
  CHECK(job.training.optimizer == Optimizer::host_offload);
  CHECK_FALSE(is_choice(job, Setting::gradient_sync, name_of(GradientSync::tree)));
  CHECK(min_stages(job) == 2);
}

TEST_CASE("a target runs the optimizer sharding that it has, and otherwise zero1 or none") {
  Job job = llama_job();
  job.execution.optimizer_sharding = OptimizerSharding::zero1;
  job.execution.gradient_sync = GradientSync::ring;
  Job open = job;
  open.automatic[Setting::optimizer_sharding] = true;
  const auto change = [&](Target target) {
    Job own = job;
    for (const TargetChange& it : restrict_to_target(own, target))
      if (it.key == "parallelism.optimizer_sharding") return format_change(it);
    return std::string();
  };
  CHECK(change(Target::megatron) == "");
  CHECK(change(Target::deepspeed) == "");
  CHECK(change(Target::torchtitan) == "");
  CHECK(change(Target::dtfm) == "optimizer_sharding none instead of zero1");
  job.execution.optimizer_sharding = OptimizerSharding::zero2;
  CHECK(change(Target::deepspeed) == "optimizer_sharding zero1 instead of zero2");  // always in bf16
  Plan plan = plan_of(job, 1, 2, 8);
  plan.execution = job.execution;
  CHECK(run_on_target(plan, job, Target::megatron).plan.execution.optimizer_sharding ==
        OptimizerSharding::zero1);
  CHECK(run_on_target(plan, job, Target::torchtitan).plan.execution.optimizer_sharding ==
        OptimizerSharding::zero1);
  restrict_to_target(open, Target::megatron);
  CHECK(open.automatic[Setting::optimizer_sharding]);
  CHECK(is_choice(open, Setting::optimizer_sharding, "zero1"));
  CHECK_FALSE(is_choice(open, Setting::optimizer_sharding, "zero2"));
}

TEST_CASE("DeepSpeed's pipelines partition the optimizer state in bf16 and only then by themselves") {
  Job job = gpt_job();
  job.execution.gradient_sync = GradientSync::ring;
  for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
    job.training.precision = precision;
    Job own = job;
    restrict_to_target(own, Target::deepspeed);
    CHECK(own.execution.optimizer_sharding ==
          (precision == Precision::bf16 ? OptimizerSharding::zero1 : OptimizerSharding::none));
  }
  job.training.precision = Precision::bf16;
  job.automatic[Setting::optimizer_sharding] = true;
  restrict_to_target(job, Target::deepspeed);
  CHECK_FALSE(job.automatic[Setting::optimizer_sharding]);
}

TEST_CASE("a precision that a target does not run is replaced, because the planner does not choose it") {
  Job job = gpt_job();
  const Texts changes = format_all(restrict_to_target(job, Target::pytorch_pipelining));
  CHECK(std::count(changes.begin(), changes.end(), "precision bf16 instead of fp16") == 1);
  CHECK(std::count(changes.begin(), changes.end(), "optimizer adam-18 instead of adam-16") == 1);
  CHECK_FALSE(job.automatic[Setting::precision]);
  job.training.precision = Precision::fp32;
  restrict_to_target(job, Target::pytorch_pipelining);
  CHECK(job.training.precision == Precision::fp32);
  CHECK(job.training.optimizer == Optimizer::adam_16);
}

TEST_CASE("restricting a job or a plan again changes nothing") {
  for (const TargetTraits& target : target_table()) {
    CAPTURE(target.name);
    Job job = gpt_job();
    job.execution.flush = 4;
    job.execution.compression.gradients = 0.5;
    restrict_to_target(job, target.kind);
    CHECK(restrict_to_target(job, target.kind).empty());
    const Job given = target.llama_only ? llama_job() : gpt_job();
    const TargetedPlan once = run_on_target(uniform_plan(given), given, target.kind);
    CHECK_FALSE(once.changes.empty());
    CHECK(once.plan.execution == once.job.execution);
    CHECK(has(target.schedules, once.plan.execution.schedule));
    CHECK(has(target.gradient_syncs, once.plan.execution.gradient_sync));
    CHECK(has(target.recomputations, once.plan.execution.recomputation));
    CHECK(once.plan.execution.tied_embedding_sync == target.tied_embedding_sync);
    const TargetedPlan again = run_on_target(once.plan, once.job, target.kind);
    CHECK(again.changes.empty());
    CHECK(again.plan == once.plan);
  }
}

TEST_CASE("a precision that a target does not have is replaced, and so is the optimizer with it") {
  const auto changes = [](Target target, Precision precision, Optimizer optimizer) {
    Job job = llama_job();
    job.training.precision = precision;
    job.training.optimizer = optimizer;
    Texts texts = format_all(restrict_to_target(job, target));
    std::erase_if(texts, [](const std::string& it) {
      return !it.starts_with("precision") && !it.starts_with("optimizer ");
    });
    return texts;
  };
  CHECK(changes(Target::torchtitan, Precision::fp16, Optimizer::adam_20) ==
        Texts{"precision bf16 instead of fp16", "optimizer adam-18 instead of adam-20"});
  CHECK(changes(Target::torchtitan, Precision::fp32, Optimizer::adam_16).empty());
  CHECK(changes(Target::megatron, Precision::fp32, Optimizer::adam_16) ==
        Texts{"precision tf32 instead of fp32"});
  for (const Optimizer optimizer : {Optimizer::sgd_8, Optimizer::sgd_12, Optimizer::host_offload})
    for (const Target target : {Target::megatron, Target::torchtitan})
      CHECK(changes(target, Precision::bf16, optimizer) ==
            Texts{fmt::format("optimizer adam-18 instead of {}", name_of(optimizer))});
  // DeepSpeed's gradients are in fp16 there, and its program trains on the device.
  CHECK(changes(Target::deepspeed, Precision::fp16, Optimizer::sgd_12) ==
        Texts{"optimizer sgd-8 instead of sgd-12"});
  CHECK(changes(Target::deepspeed, Precision::bf16, Optimizer::sgd_12).empty());
  CHECK(changes(Target::deepspeed, Precision::fp16, Optimizer::host_offload) ==
        Texts{"optimizer adam-16 instead of host-offload"});
  CHECK(changes(Target::pytorch_pipelining, Precision::fp32, Optimizer::sgd_8).empty());
  CHECK(changes(Target::pytorch_pipelining, Precision::bf16, Optimizer::sgd_8) ==
        Texts{"optimizer sgd-12 instead of sgd-8"});
  CHECK(changes(Target::pytorch_pipelining, Precision::bf16, Optimizer::host_offload) ==
        Texts{"optimizer adam-18 instead of host-offload"});
  CHECK(changes(Target::pytorch, Precision::fp16, Optimizer::host_offload).empty());
}

TEST_CASE("models that a target does not train are rejected with what they have") {
  const auto error = [](Target target, const auto& change) {
    Job job = llama_job();
    change(job);
    return error_message([&] { check_model(traits(target), job); });
  };
  CHECK(error(Target::torchtitan, [](Job&) {}) == "no error");
  CHECK_THAT(error(Target::torchtitan, [](Job& it) { it = gpt_job(); }),
             contains("the model has learned positions, layer norms, an MLP without gate, biases, but"));
  CHECK_THAT(error(Target::torchtitan, [](Job& it) { model_of(it).biases = {}; }),
             contains("the model has biases, but torchtitan trains Llama-like models; use --to megatron"));
  CHECK_THAT(error(Target::torchtitan, [](Job& it) { model_of(it).qk_norm = QkNorm::head; }),
             contains("the model has norms of queries and keys (qk_norm), but torchtitan trains"));
  for (const Target target : {Target::pytorch, Target::megatron, Target::torchtitan, Target::deepspeed,
                              Target::pytorch_pipelining, Target::dtfm})
    CHECK_THAT(error(target, [](Job& it) { model_of(it).encoder = true; }),
               contains("the model is an encoder"));
  CHECK_THAT(error(Target::megatron, [](Job& it) { it.training.precision = Precision::fp32; }),
             contains("flash attention in fp32; megatron has it only in 16 bits; plan with precision bf16"));
  CHECK(error(Target::torchtitan, [](Job& it) { it.training.precision = Precision::fp32; }) == "no error");
}

TEST_CASE("a model is rejected with the first feature that its target does not build") {
  const auto error = [](Target target, const auto& change) {
    Job job = llama_job();
    change(model_of(job));
    return error_message([&] { check_model(traits(target), job); });
  };
  const auto experts = [](Transformer& it) { it.experts = {.count = 8, .per_token = 2, .width = 64}; };
  const auto qkv_biases = [](Transformer& it) { it.biases.qkv = true; };
  for (const Target target : {Target::torchtitan, Target::deepspeed, Target::dtfm}) {
    CHECK(error(target, experts) ==
          fmt::format("{0}: the model has experts, which exports to {0} do not write; use --to pytorch or "
                      "megatron or pytorch-pipelining",
                      name_of(target)));
    CHECK_THAT(error(target, qkv_biases),
               contains("the model has biases of queries, keys and values only, which"));
  }
  CHECK(error(Target::pytorch_pipelining, experts) == "no error");
  CHECK(error(Target::pytorch_pipelining,
              [](Transformer& it) {
                it.experts = {
                    .count = 8, .per_token = 2, .width = 64, .shared_width = 64, .shared_gate = true};
              }) ==
        "pytorch-pipelining: the model has gated shared experts, which exports to pytorch-pipelining do not "
        "write; use --to pytorch or megatron");
  for (const Target target : {Target::pytorch, Target::megatron}) {
    CHECK(error(target, experts) == "no error");
    CHECK(error(target, qkv_biases) == "no error");
  }
  const auto four_norms = [](Transformer& it) { it.norms = 4; };
  CHECK(error(Target::pytorch, four_norms) == "no error");
  CHECK(error(Target::megatron, four_norms) ==
        "megatron: the model has other than two norms per block, which exports to megatron do not write; use "
        "--to pytorch");
  const auto predicting = [](const auto& change) {
    return [=](Transformer& it) {
      it.predicted_tokens = 1;
      change(it);
    };
  };
  CHECK(error(Target::megatron, predicting([](Transformer&) {})) == "no error");
  CHECK_THAT(error(Target::megatron, predicting([](Transformer& it) { it.tied = true; })),
             contains("the model has multi-token prediction with tied embeddings, which"));
  CHECK_THAT(error(Target::megatron, predicting([](Transformer& it) { it.learned_positions = true; })),
             contains("the model has multi-token prediction with learned positions, which"));
  CHECK_THAT(error(Target::megatron, predicting([](Transformer& it) {
                     it.window = 128;
                     it.blocks.assign(8, {Mixer::window_attention, Mlp::dense});
                     it.blocks[3].mixer = Mixer::attention;
                   })),
             contains("the model has multi-token prediction with windows in some blocks, which"));
  CHECK_THAT(error(Target::megatron,
                   [](Transformer& it) {
                     it.latent = {.kv_rank = 64, .nope_dim = 32, .rope_dim = 16, .value_dim = 32};
                     it.biases = {};
                   }),
             contains("the model has latent attention with biases, which"));
}

// 8 experts of width 96, one that all tokens visit of width 48; sequence 512, 16 heads.
TEST_CASE("experts are divided among tensor-parallel devices only with sequence parallelism") {
  const auto obstacle = [](int tensor, const auto& change) {
    Job job = llama_job();
    model_of(job).experts = {.count = 8, .per_token = 2, .width = 96, .shared_width = 48};
    model_of(job).feed_forward = 3001;  // no block has it
    change(job);
    return tensor_obstacle(traits(Target::megatron), job, tensor);
  };
  CHECK(obstacle(4, [](Job&) {}).empty());
  CHECK(obstacle(4, [](Job& job) { model_of(job).experts.shared_width = 50; }) ==
        "experts of width 50 are not a multiple of tp=4");
  CHECK(obstacle(4, [](Job& job) { model_of(job).experts.biases = true; }) ==
        "experts with biases cannot be divided by tp=4");
  CHECK(obstacle(4, [](Job& job) { job.parallelism.sequence_parallel = false; }) ==
        "experts with tp=4 require `sequence_parallel: true`");
  CHECK(obstacle(1, [](Job& job) { job.parallelism.sequence_parallel = false; }).empty());
  // Latent attention has as many key-value heads as heads.
  CHECK(obstacle(16, [](Job& job) {
          model_of(job).kv_heads = 3;
          model_of(job).latent.kv_rank = 64;
        }).empty());
}

// 16 heads, 8 key-value heads, MLP width 2816 = 2⁸ · 11, sequence 512.
TEST_CASE("a target divides among tensor-parallel devices what it can") {
  const auto obstacle = [](Target target, int tensor, const auto& change) {
    Job job = llama_job();
    change(job);
    return tensor_obstacle(traits(target), job, tensor);
  };
  const auto nothing = [](Job&) {};
  for (const Target target : {Target::megatron, Target::torchtitan})
    for (const int tensor : {1, 2, 4, 8}) CHECK(obstacle(target, tensor, nothing).empty());
  CHECK(obstacle(Target::megatron, 3, nothing) == "16 heads are not a multiple of tp=3");
  CHECK(obstacle(Target::megatron, 16, nothing).empty());  // each key-value head on two devices
  CHECK(obstacle(Target::torchtitan, 16, nothing) == "8 key-value heads are not a multiple of tp=16");
  const auto three = [](Job& job) {
    model_of(job).hidden = 1536;
    model_of(job).heads = 24;
  };
  CHECK(obstacle(Target::megatron, 3, three) == "8 key-value heads are not a multiple or divisor of tp=3");
  const auto odd_sequence = [&](Job& job) {
    three(job);
    model_of(job).kv_heads = 24;
    model_of(job).feed_forward = 3000;
  };
  CHECK(obstacle(Target::megatron, 3, odd_sequence) ==
        "sequence 512 is not a multiple of tp=3, as sequence_parallel requires");
  CHECK(obstacle(Target::megatron, 3, [&](Job& job) {
          odd_sequence(job);
          job.parallelism.sequence_parallel = false;
        }).empty());
  CHECK(obstacle(Target::megatron, 4, [](Job& job) { model_of(job).feed_forward = 3001; }) ==
        "feed_forward 3001 is not a multiple of tp=4");
}

TEST_CASE("torchtitan rejects 1F1B with few micro-batches, and tied embeddings over several stages") {
  Job job = llama_job();
  job.training.global_batch = 2;
  job.execution.schedule = Schedule::one_f_one_b;
  Plan plan = plan_of(job, 2, 2, 1);
  CHECK_THAT(error_message([&] { run_on_target(plan, job, Target::torchtitan); }),
             contains("schedule 1f1b with 1 micro-batches per flush over 2 stages"));
  CHECK(error_message([&] { run_on_target(plan, job, Target::megatron); }) == "no error");
  plan.execution.schedule = Schedule::gpipe;
  CHECK(error_message([&] { run_on_target(plan, job, Target::torchtitan); }) == "no error");
  job.training.global_batch = 4;
  model_of(job).tied = true;
  CHECK_THAT(error_message([&] { run_on_target(plan_of(job, 2, 2, 2), job, Target::torchtitan); }),
             contains("the model ties embedding and head, but pipelines have 2 stages"));
  CHECK(error_message([&] { run_on_target(plan_of(job, 1, 2, 2), job, Target::torchtitan); }) == "no error");
}

TEST_CASE("torchtitan runs orders that plans decide, but 1f1b as PyTorch's own class") {
  Job job = llama_job();
  job.automatic = {Setting::schedule};
  restrict_to_target(job, Target::torchtitan);
  for (const Schedule schedule : {Schedule::zero_bubble_greedy, Schedule::eager_one_f_one_b}) {
    CHECK(is_choice(job, Setting::schedule, name_of(schedule)));
    Plan plan = plan_of(job, 2, 2, 8);
    plan.execution.schedule = schedule;
    CHECK(run_on_target(plan, job, Target::torchtitan).plan.execution.schedule == schedule);
  }
  CHECK(first_schedule(job) == Schedule::one_f_one_b_blocking);
  job.automatic = {};
  job.execution.schedule = Schedule::one_f_one_b;
  restrict_to_target(job, Target::torchtitan);
  CHECK(job.execution.schedule == Schedule::one_f_one_b_blocking);
}

TEST_CASE("torchtitan does not split backward passes that recompute") {
  Job job = llama_job();
  Plan plan = plan_of(job, 2, 2, 8);
  plan.execution.schedule = Schedule::zero_bubble_greedy;
  plan.execution.recomputation = Recomputation::full;
  const TargetedPlan run = run_on_target(plan, job, Target::torchtitan);
  CHECK(run.plan.execution.schedule == Schedule::one_f_one_b_blocking);
  CHECK(run.plan.execution.recomputation == Recomputation::full);
  CHECK(run_on_target(plan, job, Target::pytorch).plan.execution.schedule == Schedule::zero_bubble_greedy);

  job.automatic = {Setting::schedule};
  job.execution.recomputation = Recomputation::full;
  Job open = job;
  open.automatic[Setting::recompute] = true;
  restrict_to_target(job, Target::torchtitan);
  restrict_to_target(open, Target::torchtitan);
  CHECK_FALSE(is_choice(job, Setting::schedule, "zb-greedy"));
  CHECK(is_choice(job, Setting::schedule, "eager-1f1b"));
  CHECK(is_choice(open, Setting::schedule, "zb-greedy"));
  for (const Recomputation it : {Recomputation::none, Recomputation::full}) {
    open.execution.schedule = Schedule::zero_bubble_greedy;
    open.execution.recomputation = it;
    for (const int stages : {1, 2}) CHECK(can_have_stages(open, stages, 4) == (it == Recomputation::none));
  }
}

TEST_CASE("only programs of this project need no barrier between iterations, and with fp16 they do") {
  for (const TargetTraits& target : target_table())
    for (const Precision precision : {Precision::fp16, Precision::bf16, Precision::fp32}) {
      CAPTURE(target.name, precision);
      Job job = gpt_job();
      job.training.precision = precision;
      restrict_to_target(job, target.kind);
      CHECK(job.execution.iteration_barrier ==
            (target.iteration_barrier || job.training.precision == Precision::fp16));
      CHECK(target.iteration_barrier ==
            (target.kind != Target::pytorch && target.kind != Target::pytorch_pipelining));
    }
}

TEST_CASE("tensor parallelism of a target applies only to plans that have it") {
  Job job = llama_job();
  job.parallelism.sequence_parallel = false;
  job.parallelism.scatter_gather = true;
  CHECK(run_on_target(uniform_plan(job), job, Target::torchtitan).job.parallelism.scatter_gather);
  job.parallelism.tensor = 2;
  restrict_to_target(job, Target::torchtitan);
  CHECK(job.parallelism.sequence_parallel);
  CHECK_FALSE(job.parallelism.scatter_gather);
  restrict_to_target(job, Target::dtfm);
  CHECK(job.parallelism.tensor == 1);
}

TEST_CASE("a plan that a target cannot run is rejected with the nearest change") {
  const Job job = gpt_job();
  Plan plan = uniform_plan(job);
  plan.pipelines[1].stages[0].layers.second = plan.pipelines[1].stages[1].layers.first = 3;
  CHECK(error_message([&] { run_on_target(plan, job, Target::megatron); }) ==
        "megatron: pipelines 0 and 1 split layers differently (4/4 vs 3/5); megatron has one layout for all "
        "replicas; use --to pytorch, or plan with --target megatron");
  CHECK(run_on_target(plan, job, Target::pytorch).plan.pipelines == plan.pipelines);
  CHECK(error_message([&] { run_on_target(plan_of(job, 1, 2, 8), job, Target::dtfm); }) ==
        "dtfm: pipelines have 1 stage; dtfm needs at least 2; plan with --target dtfm");
}
