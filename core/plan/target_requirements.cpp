#include "core/plan/target_requirements.hpp"

#include <algorithm>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/index.hpp"
#include "core/plan/target.hpp"
#include "core/plan/stage_mesh.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm {
namespace {

std::vector<int> layers_per_stage(const Pipeline& pipeline, int chunks) {
  std::vector<int> counts;
  for (const auto& [begin, end] : virtual_stage_layers(pipeline, chunks)) counts.push_back(end - begin);
  return counts;
}

class Requirements {
 public:
  Requirements(const TargetTraits& target, const Plan& plan, const Job& job)
      : target_(target), plan_(plan), job_(job), first_(plan.pipelines.front()) {}

  void check() const {
    check_model(target_, job_);
    if (!target_.context_parallelism) check_no_context_parallelism();
    if (const std::string what = context_obstacle(target_, job_); !what.empty()) reject(what);
    if (!target_.expert_parallelism) check_no_expert_parallelism();
    if (!target_.tensor_parallelism) check_no_tensor_parallelism();
    check_chunks();
    if (target_.uniform_pipelines) check_uniform_pipelines();
    check_batch();
    check_depth();
    check_cuts();
    if (target_.flushes == FlushSupport::equal_rounds) check_flushes();
    check_tensor_degrees();
    check_ties();
    check_fill();
  }

 private:
  [[noreturn]] void reject(const std::string& what) const {
    throw NotRunnable(fmt::format("{}: {}", target_.name, what));
  }

  /// The fix where the target requires uniform pipelines.
  std::string heterogeneous_fix() const {
    return fmt::format("use --to pytorch, or plan with --target {}", target_.name);
  }

  template <class Visit>
  void for_each_other_pipeline(const Visit& visit) const {
    for (std::size_t p = 1; p < plan_.pipelines.size(); ++p) visit(p, plan_.pipelines[p]);
  }

  /// Calls visit(s, stage) for each stage s of each pipeline.
  template <class Visit>
  void for_each_stage(const Visit& visit) const {
    for (const Pipeline& pipeline : plan_.pipelines)
      for (std::size_t s = 0; s < pipeline.stages.size(); ++s) visit(s, pipeline.stages[s]);
  }

  bool has_chunks() const { return traits(plan_.execution.schedule).has_chunks; }
  int chunks() const { return stage_chunks(plan_.execution); }

  int tensor_of(const Stage& stage) const { return stage_mesh(plan_.execution, stage.devices.size()).tensor; }

  void check_no_context_parallelism() const {
    if (const int context = plan_.execution.context; context > 1)
      reject(
          fmt::format("the plan has context {}; exports to {} have no context parallelism; plan with "
                      "--context 1",
                      context, target_.name));
  }

  void check_no_expert_parallelism() const {
    const int expert = plan_.execution.expert, data = plan_.execution.stage_data.value_or(1);
    if (expert > 1 || data > 1)
      reject(
          fmt::format("the plan has expert {} and stage_data {}; exports to {} have no expert parallelism; "
                      "plan with --expert 1",
                      expert, data, target_.name));
  }

  void check_no_tensor_parallelism() const {
    for_each_stage([&](std::size_t s, const Stage& stage) {
      if (tensor_of(stage) > 1)
        reject(fmt::format("stage {} uses tp={}; {} has no tensor parallelism; plan with --tensor 1", s,
                           tensor_of(stage), target_.name));
    });
  }

  void check_chunks() const {
    if (!has_chunks()) return;
    if (std::none_of(target_.schedules.begin(), target_.schedules.end(),
                     [](Schedule it) { return traits(it).has_chunks; }))
      reject(fmt::format("schedule {} with {} chunks per device; {} supports one; plan with --target {}",
                         name_of(plan_.execution.schedule), plan_.execution.chunks.value_or(1), target_.name,
                         target_.name));
  }

  void check_uniform_pipelines() const {
    for_each_other_pipeline([&](std::size_t p, const Pipeline& pipeline) {
      const std::size_t depth = first_.stages.size();
      if (pipeline.stages.size() != depth)
        reject(
            fmt::format("pipelines 0 and {} have {} and {} stages, so that stage 0 has {} replicas and "
                        "stage {} fewer; {} needs the same data-parallel degree in every stage; {}",
                        p, depth, pipeline.stages.size(), plan_.pipelines.size(),
                        stage_groups(plan_).size() - 1, target_.name, heterogeneous_fix()));
      if (layers_per_stage(pipeline, chunks()) != layers_per_stage(first_, chunks()))
        reject(
            fmt::format("pipelines 0 and {} split layers differently ({} vs {}); {} has one layout for "
                        "all replicas; {}",
                        p, format_split(first_, chunks()), format_split(pipeline, chunks()), target_.name,
                        heterogeneous_fix()));
      if (pipeline.micro_batches != first_.micro_batches)
        reject(
            fmt::format("pipelines 0 and {} have {} and {} micro-batches; {} derives one count from the "
                        "global batch; {}",
                        p, first_.micro_batches, pipeline.micro_batches, target_.name, heterogeneous_fix()));
      if (planned_orders(pipeline, plan_.execution.schedule) !=
          planned_orders(first_, plan_.execution.schedule))
        reject(fmt::format(
            "pipelines 0 and {} compute in different orders; {} has one order for all replicas; {}", p,
            target_.name, heterogeneous_fix()));
      for (std::size_t s = 0; s < depth; ++s)
        if (pipeline.stages[s].recompute_layers != first_.stages[s].recompute_layers)
          reject(
              fmt::format("stage {} recomputes other numbers of layers in pipelines 0 and {}; {} recomputes "
                          "the same number "
                          "in all replicas of a stage; {}",
                          s, p, target_.name, heterogeneous_fix()));
    });
    const int degree = tensor_of(first_.stages.front());
    for_each_stage([&](std::size_t s, const Stage& stage) {
      if (tensor_of(stage) != degree)
        reject(fmt::format("stage {} uses tp={}, stage 0 tp={}; {} has one tensor-parallel size; {}", s,
                           tensor_of(stage), degree, target_.name, heterogeneous_fix()));
    });
  }

  void check_batch() const {
    const int global_batch = job_.training.global_batch, micro_batch = plan_.execution.micro_batch;
    const auto replicas = static_cast<long long>(plan_.pipelines.size());
    if (target_.uniform_pipelines && global_batch % (micro_batch * replicas) != 0)
      reject(
          fmt::format("global batch {} is not a multiple of micro-batch {} x dp {}; plan with another "
                      "--batch or --data",
                      global_batch, micro_batch, replicas));
    for (const Pipeline& pipeline : plan_.pipelines)
      if (pipeline.micro_batches == 0)
        reject(
            fmt::format("a pipeline has no micro-batches; {} needs some in each; plan with a larger --batch",
                        target_.name));
    if (const long long all = total_micro_batches(plan_); all * micro_batch != global_batch)
      reject(
          fmt::format("{} micro-batches of {} do not make up the job's global batch {}; plan again for "
                      "this job",
                      all, micro_batch, global_batch));
  }

  void check_depth() const {
    const int stages = min_depth(plan_);
    if (stages < target_.min_stages)
      reject(fmt::format("pipelines have {} {}; {} needs at least {}; plan with --target {}", stages,
                         stages == 1 ? "stage" : "stages", target_.name, target_.min_stages, target_.name));
    if (!has_chunks()) return;
    if (stages < target_.min_interleaved_stages)
      reject(fmt::format("schedule {} over {} stages; {} needs at least {}; plan with schedule 1f1b",
                         name_of(plan_.execution.schedule), stages, target_.name,
                         target_.min_interleaved_stages));
    for (const Pipeline& pipeline : plan_.pipelines)
      if (at(pipeline.micro_batches) % pipeline.stages.size() != 0)
        reject(fmt::format(
            "schedule {} with {} micro-batches over {} stages; {} needs a multiple; plan with "
            "schedule 1f1b, or another --batch",
            name_of(plan_.execution.schedule), pipeline.micro_batches, pipeline.stages.size(), target_.name));
  }

  void check_cuts() const {
    if (target_.cuts == LayerCuts::any) return;
    for (const Pipeline& pipeline : plan_.pipelines) {
      const std::vector<int> counts = layers_per_stage(pipeline, chunks());
      const auto empty = std::find(counts.begin(), counts.end(), 0);
      if (empty != counts.end())
        reject(
            fmt::format("{}stage {} has no layers ({}); {} needs at least one in every stage; use --to "
                        "megatron, or plan with fewer stages",
                        chunks() > 1 ? "virtual " : "", empty - counts.begin(),
                        format_split(first_, chunks()), target_.name));
    }
  }

  void check_flushes() const {
    const int all = first_.micro_batches, flush = plan_.execution.flush.value_or(all);
    if (flush < all && all % flush != 0)
      reject(
          fmt::format("pipelines flush every {} of {} micro-batches; {} accumulates gradients in equal "
                      "rounds; plan with a flush that divides {}, or with --target {}",
                      flush, all, target_.name, all, target_.name));
  }

  void check_tensor_degrees() const {
    for_each_stage([&](std::size_t, const Stage& stage) {
      if (const std::string obstacle = tensor_obstacle(target_, job_, tensor_of(stage)); !obstacle.empty())
        reject(obstacle + "; plan with another --tensor");
    });
  }

  void check_ties() const {
    const auto* transformer = std::get_if<Transformer>(&job_.model);
    if (!target_.tied_pipelines && transformer && transformer->tied && depth(plan_) > 1)
      reject(
          fmt::format("the model ties embedding and head, but pipelines have {} stages; {} ties them only "
                      "in one stage; plan with --pipeline 1, or set `tied: false`",
                      depth(plan_), target_.name));
  }

  /// The schedule of the plan may be replaced by 1f1b-blocking.
  void check_fill() const {
    if (!target_.filled_1f1b || !runs_blocking_1f1b()) return;
    for (const Pipeline& pipeline : plan_.pipelines) {
      const int stages = static_cast<int>(pipeline.stages.size());
      const int flush =
          target_.flushes == FlushSupport::never
              ? pipeline.micro_batches
              : std::min(pipeline.micro_batches, plan_.execution.flush.value_or(pipeline.micro_batches));
      if (stages > 1 && flush < stages)
        reject(
            fmt::format("schedule 1f1b with {} micro-batches per flush over {} stages; {} needs at least "
                        "as many micro-batches as stages; plan with schedule gpipe, fewer stages or "
                        "smaller micro-batches",
                        flush, stages, target_.name));
    }
  }

  bool runs_blocking_1f1b() const {
    const Schedule schedule = plan_.execution.schedule;
    if (has(target_.schedules, schedule)) return schedule == Schedule::one_f_one_b_blocking;
    return target_.schedules.front() == Schedule::one_f_one_b_blocking;
  }

  const TargetTraits& target_;
  const Plan& plan_;
  const Job& job_;
  const Pipeline& first_;
};

/// What the target cannot build of the model; empty if it builds all or trains modules of the user.
std::string_view unbuilt_part(const TargetTraits& target, const Transformer& model) {
  if (!target.transformers_only) return "";
  const std::string_view feature = unsupported_feature(model, target.features);
  return feature.empty() && target.model_obstacle ? target.model_obstacle(model) : feature;
}

std::vector<std::string_view> targets_that_build(const Transformer& model) {
  std::vector<std::string_view> names;
  for (const TargetTraits& it : target_table())
    if (unbuilt_part(it, model).empty()) names.push_back(it.name);
  return names;
}

/// What distinguishes the model from Llama; empty if nothing does.
std::string differences_from_llama(const Transformer& model) {
  std::vector<std::string_view> found;
  if (model.learned_positions) found.emplace_back("learned positions");
  if (model.norm != Norm::rms) found.emplace_back("layer norms");
  if (!model.gated) found.emplace_back("an MLP without gate");
  if (model.biases.mlp) found.emplace_back("biases");
  if (model.qk_norm != QkNorm::none) found.emplace_back("norms of queries and keys (qk_norm)");
  return fmt::format("{}", fmt::join(found, ", "));
}

}  // namespace

void check_model(const TargetTraits& target, const Job& job) {
  const auto reject = [&](const std::string& what) {
    throw NotRunnable(fmt::format("{}: {}", target.name, what));
  };
  const auto* transformer = std::get_if<Transformer>(&job.model);
  if (transformer == nullptr) {
    if (target.transformers_only)
      reject(
          fmt::format("the model is a chain of layers, but {} trains transformers; use --to torchrun and "
                      "rank_table.json with your own trainer",
                      target.name));
    return;
  }
  if (!target.encoders && transformer->encoder)
    reject(
        fmt::format("the model is an encoder, but exports to {} train only decoders; use --to torchrun and "
                    "rank_table.json with your own program",
                    target.name));
  if (const std::string_view lacking = unbuilt_part(target, *transformer); !lacking.empty())
    reject(fmt::format("the model has {}, which exports to {} do not write; use --to {}", lacking,
                       target.name, fmt::join(targets_that_build(*transformer), " or ")));
  if (const std::string differences = differences_from_llama(*transformer);
      target.llama_only && !differences.empty())
    reject(
        fmt::format("the model has {}, but {} trains Llama-like models; use --to megatron, or plan "
                    "a Llama-like model with --model config.json or in the job (norm: rms, gated: true, "
                    "positions: rotary, biases: false, "
                    "qk_norm: false)",
                    differences, target.name));
  if (const std::string obstacle = quantization_obstacle(job, 1);
      !obstacle.empty() && has(target.matmul_formats, job.training.matmul))
    reject(obstacle + fmt::format("; plan with `matmul: {}`", name_of(MatmulFormat::precision)));
  const Precision precision = job.training.precision;
  if (target.flash_in_16_bits && transformer->flash_attention && traits(precision).bytes_per_element > 2)
    reject(
        fmt::format("flash attention in {}; {} has it only in 16 bits; plan with precision bf16, or with "
                    "`attention: eager`",
                    name_of(precision), target.name));
}

void check_trainable(const TargetTraits& target, const Job& job) {
  check_model(target, job);
  if (job.automatic[Setting::tensor]) return;
  if (const std::string obstacle = tensor_obstacle(target, job, job.parallelism.tensor); !obstacle.empty())
    throw NotRunnable(fmt::format("{}: {}; plan with another --tensor", target.name, obstacle));
}

std::string format_split(const Pipeline& pipeline, int chunks) {
  return fmt::format("{}", fmt::join(layers_per_stage(pipeline, chunks), "/"));
}

void check_runnable(const TargetTraits& target, const Plan& plan, const Job& job) {
  DTFM_ASSERT(!plan.pipelines.empty());
  Requirements(target, plan, job).check();
}

}  // namespace dtfm
