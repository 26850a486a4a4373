#include "planner/export/export_requirements.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/virtual_stages.hpp"

namespace dtfm::exporter {
namespace {

std::vector<int> layers_per_stage(const Pipeline& pipeline) {
  std::vector<int> counts;
  for (const Stage& stage : pipeline.stages) counts.push_back(stage.layers.second - stage.layers.first);
  return counts;
}

const Pipeline& first_pipeline(const ExportBundle& bundle) {
  return bundle.plan.pipelines.front();
}

/// Calls visit(p, pipeline) for each pipeline but the first.
template <class Visit>
void for_each_other_pipeline(const ExportBundle& bundle, const Visit& visit) {
  for (std::size_t p = 1; p < bundle.plan.pipelines.size(); ++p) visit(p, bundle.plan.pipelines[p]);
}

}  // namespace

void reject(std::string_view target, const std::string& what) {
  throw Error("", fmt::format("{}: {}", target, what));
}

std::vector<std::string> schedule_notes(const ExportBundle& bundle, Schedule trainer_schedule) {
  const auto& pipelines = bundle.plan.pipelines;
  const ExecutionConfig& planned = bundle.job.execution;
  const bool has_hops = std::any_of(pipelines.begin(), pipelines.end(),
                                    [](const Pipeline& it) { return it.stages.size() > 1; });
  std::vector<std::string> notes;
  const bool is_same_order = traits(planned.schedule).order == traits(trainer_schedule).order;
  if (has_hops && !is_same_order)
    notes.push_back(fmt::format("it runs schedule {0}, but the plan assumes {1}: plan with schedule {0}",
                                name_of(trainer_schedule), name_of(planned.schedule)));
  if (planned.flush && *planned.flush < pipelines.front().micro_batches)
    notes.push_back(fmt::format(
        "it does not flush pipelines every {} micro-batches, which the plan needs for activations "
        "to fit in memory: plan with schedule 1f1b",
        *planned.flush));
  return notes;
}

std::string format_split(const Pipeline& pipeline) {
  return fmt::format("{}", fmt::join(layers_per_stage(pipeline), "/"));
}

void require_equal_depth(const ExportBundle& bundle, std::string_view target) {
  const std::size_t depth = first_pipeline(bundle).stages.size();
  for_each_other_pipeline(bundle, [&](std::size_t p, const Pipeline& pipeline) {
    if (pipeline.stages.size() == depth) return;
    const auto groups = stage_groups(bundle.plan);
    const std::size_t last = groups.size() - 1;
    reject(target,
           fmt::format("pipelines 0 and {} have {} and {} stages, so that stage 0 has {} replicas and "
                       "stage {} fewer; {} needs the same data-parallel degree in every stage; {}",
                       p, depth, pipeline.stages.size(), bundle.plan.pipelines.size(), last, target,
                       heterogeneous_hint));
  });
}

void require_same_layer_split(const ExportBundle& bundle, std::string_view target) {
  for_each_other_pipeline(bundle, [&](std::size_t p, const Pipeline& pipeline) {
    if (layers_per_stage(pipeline) != layers_per_stage(first_pipeline(bundle)))
      reject(target,
             fmt::format("pipelines 0 and {} split layers differently ({} vs {}); {} has one layout for "
                         "all replicas; {}",
                         p, format_split(first_pipeline(bundle)), format_split(pipeline), target,
                         heterogeneous_hint));
  });
}

void require_one_tensor_degree(const ExportBundle& bundle, std::string_view target) {
  const std::size_t degree = first_pipeline(bundle).stages.front().devices.size();
  for (const Pipeline& pipeline : bundle.plan.pipelines)
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
      if (pipeline.stages[s].devices.size() != degree)
        reject(target, fmt::format("stage {} uses tp={}, stage 0 tp={}; {} has one tensor-parallel size; {}",
                                   s, pipeline.stages[s].devices.size(), degree, target, heterogeneous_hint));
}

void require_no_tensor_parallelism(const ExportBundle& bundle, std::string_view target) {
  for (const Pipeline& pipeline : bundle.plan.pipelines)
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
      if (pipeline.stages[s].devices.size() > 1)
        reject(target, fmt::format("stage {} uses tp={}; {} has no tensor parallelism; plan with --tensor 1",
                                   s, pipeline.stages[s].devices.size(), target));
}

void require_full_global_batch(const ExportBundle& bundle, std::string_view target) {
  const int global_batch = bundle.job.training.global_batch, micro_batch = bundle.job.execution.micro_batch;
  long long all = 0;
  for (const Pipeline& pipeline : bundle.plan.pipelines) {
    if (pipeline.micro_batches == 0)
      reject(target,
             fmt::format("a pipeline has no micro-batches; {} needs some in each; plan with a larger --batch",
                         target));
    all += pipeline.micro_batches;
  }
  if (all * micro_batch != global_batch)
    reject(target,
           fmt::format(
               "{} micro-batches of {} do not make up the job's global batch {}; plan again for this job",
               all, micro_batch, global_batch));
}

void require_equal_micro_batches(const ExportBundle& bundle, std::string_view target) {
  const int count = first_pipeline(bundle).micro_batches;
  for_each_other_pipeline(bundle, [&](std::size_t p, const Pipeline& pipeline) {
    if (pipeline.micro_batches != count)
      reject(target,
             fmt::format("pipelines 0 and {} have {} and {} micro-batches; {} derives one count from the "
                         "global batch; {}",
                         p, count, pipeline.micro_batches, target, heterogeneous_hint));
  });
  const int global_batch = bundle.job.training.global_batch, micro_batch = bundle.job.execution.micro_batch;
  const auto replicas = static_cast<long long>(bundle.plan.pipelines.size());
  if (global_batch % (micro_batch * replicas) != 0)
    reject(target,
           fmt::format("global batch {} is not a multiple of micro-batch {} x dp {}; plan with another "
                       "--batch or --data",
                       global_batch, micro_batch, replicas));
  require_full_global_batch(bundle, target);
}

void require_equal_flushes(const ExportBundle& bundle, std::string_view target,
                           std::string_view alternative) {
  const int all = micro_batches_per_pipeline(bundle), flush_size = micro_batches_per_flush(bundle);
  if (all % flush_size != 0)
    reject(target,
           fmt::format("pipelines flush every {} of {} micro-batches; {} accumulates gradients in equal "
                       "rounds; plan with a flush that divides {}{}",
                       flush_size, all, target, all, alternative));
}

void require_nonempty_stages(const ExportBundle& bundle, std::string_view target) {
  for (const Pipeline& pipeline : bundle.plan.pipelines)
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
      if (pipeline.stages[s].layers.first == pipeline.stages[s].layers.second)
        reject(target,
               fmt::format("stage {} has no layers ({}); {} needs at least one in every stage; use --to "
                           "megatron, or plan with fewer stages",
                           s, format_split(pipeline), target));
}

void require_no_chunks(const ExportBundle& bundle, std::string_view target) {
  if (const int chunks = stage_chunks(bundle.job); chunks > 1)
    reject(target,
           fmt::format("schedule interleaved with {} chunks per device; {} supports one; plan with schedule "
                       "1f1b",
                       chunks, target));
}

const Transformer& require_transformer(const ExportBundle& bundle, std::string_view target) {
  const auto* transformer = std::get_if<Transformer>(&bundle.job.model);
  if (!transformer)
    reject(target,
           fmt::format("the model is a chain of layers, but {} trains transformers; use --to torchrun and "
                       "rank_table.json with your own trainer",
                       target));
  return *transformer;
}

void require_divisible_heads(const ExportBundle& bundle, std::string_view target) {
  const int heads = require_transformer(bundle, target).heads;
  for (const Pipeline& pipeline : bundle.plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (heads % static_cast<int>(stage.devices.size()) != 0)
        reject(target, fmt::format("{} heads are not a multiple of tp={}; plan with another --tensor", heads,
                                   stage.devices.size()));
}

void require_uniform_pipelines(const ExportBundle& bundle, std::string_view target) {
  require_equal_depth(bundle, target);
  require_same_layer_split(bundle, target);
  require_equal_micro_batches(bundle, target);
}

bool is_llama_like(const Transformer& model) {
  return model.rms_norm && model.gated && !model.learned_positions;
}

std::optional<std::size_t> find_stage_across_machines(const ExportBundle& bundle) {
  const auto host_of = [&](int device) -> const std::string& { return bundle.locations[at(device)].host; };
  for (const Pipeline& pipeline : bundle.plan.pipelines)
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
      for (const int device : pipeline.stages[s].devices)
        if (host_of(device) != host_of(pipeline.stages[s].devices.front())) return s;
  return std::nullopt;
}

int stage_count(const ExportBundle& bundle) {
  return static_cast<int>(first_pipeline(bundle).stages.size());
}

int replica_count(const ExportBundle& bundle) {
  return static_cast<int>(bundle.plan.pipelines.size());
}

std::vector<int> layer_counts(const ExportBundle& bundle) {
  return layers_per_stage(first_pipeline(bundle));
}

std::vector<std::pair<int, int>> virtual_stages(const ExportBundle& bundle) {
  return virtual_stage_layers(first_pipeline(bundle), stage_chunks(bundle.job));
}

int micro_batches_per_pipeline(const ExportBundle& bundle) {
  return first_pipeline(bundle).micro_batches;
}

int micro_batches_per_flush(const ExportBundle& bundle) {
  return std::min(bundle.job.execution.flush.value_or(micro_batches_per_pipeline(bundle)),
                  micro_batches_per_pipeline(bundle));
}

int tensor_degree(const ExportBundle& bundle) {
  return static_cast<int>(first_pipeline(bundle).stages.front().devices.size());
}

}  // namespace dtfm::exporter
