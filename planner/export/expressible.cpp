#include "planner/export/expressible.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/core/error.hpp"
#include "planner/core/index.hpp"
#include "planner/core/virtual_stages.hpp"

namespace dtfm::exporter {
namespace {

std::vector<int> counts_of(const Pipeline& pipeline) {
  std::vector<int> counts;
  for (const Stage& stage : pipeline.stages) counts.push_back(stage.layers.second - stage.layers.first);
  return counts;
}

const Pipeline& first_of(const Handover& handover) {
  return handover.plan.pipelines.front();
}

/// Calls `see(p, pipeline)` for each pipeline but the first.
template <class See>
void for_others(const Handover& handover, const See& see) {
  for (std::size_t p = 1; p < handover.plan.pipelines.size(); ++p) see(p, handover.plan.pipelines[p]);
}

}  // namespace

void refuse(std::string_view target, const std::string& what) {
  throw Error("", fmt::format("{}: {}", target, what));
}

std::vector<std::string> schedule_notes(const Handover& handover, std::string_view own) {
  const auto& pipelines = handover.plan.pipelines;
  const Parallelism& planned = handover.job.parallelism;
  const bool has_hops = std::any_of(pipelines.begin(), pipelines.end(),
                                    [](const Pipeline& it) { return it.stages.size() > 1; });
  std::vector<std::string> notes;
  if (has_hops && planned.schedule != own)
    notes.push_back(
        fmt::format("it runs schedule {0}, and the plan's times are those of {1}: plan with schedule {0}",
                    own, planned.schedule));
  if (planned.flush && *planned.flush < pipelines.front().micro_batches)
    notes.push_back(
        fmt::format("it does not drain pipelines after every {} micro-batches, as the plan does so that "
                    "activations fit: plan with schedule 1f1b",
                    *planned.flush));
  return notes;
}

std::string split_text(const Pipeline& pipeline) {
  return fmt::format("{}", fmt::join(counts_of(pipeline), "/"));
}

void require_equal_depth(const Handover& handover, std::string_view target) {
  const std::size_t depth = first_of(handover).stages.size();
  for_others(handover, [&](std::size_t p, const Pipeline& pipeline) {
    if (pipeline.stages.size() == depth) return;
    const auto groups = stage_groups(handover.plan);
    const std::size_t last = groups.size() - 1;
    refuse(target,
           fmt::format("pipelines 0 and {} have {} and {} stages, so that stage 0 has {} replicas and "
                       "stage {} fewer; {} needs the same data-parallel degree in every stage; {}",
                       p, depth, pipeline.stages.size(), handover.plan.pipelines.size(), last, target,
                       other_trainer));
  });
}

void require_common_split(const Handover& handover, std::string_view target) {
  for_others(handover, [&](std::size_t p, const Pipeline& pipeline) {
    if (counts_of(pipeline) != counts_of(first_of(handover)))
      refuse(target,
             fmt::format("pipelines 0 and {} split layers differently ({} vs {}); {} has one layout for "
                         "all replicas; {}",
                         p, split_text(first_of(handover)), split_text(pipeline), target, other_trainer));
  });
}

void require_one_degree(const Handover& handover, std::string_view target) {
  const std::size_t degree = first_of(handover).stages.front().devices.size();
  for (const Pipeline& pipeline : handover.plan.pipelines)
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
      if (pipeline.stages[s].devices.size() != degree)
        refuse(target, fmt::format("stage {} uses tp={}, stage 0 tp={}; {} has one tensor-parallel size; {}",
                                   s, pipeline.stages[s].devices.size(), degree, target, other_trainer));
}

void require_no_tensor(const Handover& handover, std::string_view target) {
  for (const Pipeline& pipeline : handover.plan.pipelines)
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
      if (pipeline.stages[s].devices.size() > 1)
        refuse(target, fmt::format("stage {} uses tp={}; {} has no tensor parallelism; plan with --tensor 1",
                                   s, pipeline.stages[s].devices.size(), target));
}

void require_whole_batch(const Handover& handover, std::string_view target) {
  const Training& training = handover.job.training;
  long long all = 0;
  for (const Pipeline& pipeline : handover.plan.pipelines) {
    if (pipeline.micro_batches == 0)
      refuse(target,
             fmt::format("a pipeline has no micro-batches; {} gives each some; plan with a larger --batch",
                         target));
    all += pipeline.micro_batches;
  }
  if (all * training.micro_batch != training.global_batch)
    refuse(target,
           fmt::format("{} micro-batches of {} are not the job's global batch {}; plan again for this job",
                       all, training.micro_batch, training.global_batch));
}

void require_equal_micro_batches(const Handover& handover, std::string_view target) {
  const int count = first_of(handover).micro_batches;
  for_others(handover, [&](std::size_t p, const Pipeline& pipeline) {
    if (pipeline.micro_batches != count)
      refuse(target,
             fmt::format("pipelines 0 and {} have {} and {} micro-batches; {} derives one count from the "
                         "global batch; {}",
                         p, count, pipeline.micro_batches, target, other_trainer));
  });
  const Training& training = handover.job.training;
  const auto replicas = static_cast<long long>(handover.plan.pipelines.size());
  if (training.global_batch % (training.micro_batch * replicas) != 0)
    refuse(target,
           fmt::format("global batch {} is not a multiple of micro-batch {} x dp {}; plan with another "
                       "--batch or --data",
                       training.global_batch, training.micro_batch, replicas));
  require_whole_batch(handover, target);
}

void require_equal_rounds(const Handover& handover, std::string_view target, std::string_view or_else) {
  const int all = micro_batches_of(handover), round = round_of(handover);
  if (all % round != 0)
    refuse(target,
           fmt::format("pipelines drain after {} of {} micro-batches; {} accumulates gradients over equal "
                       "rounds; plan with flush: a divisor of {}{}",
                       round, all, target, all, or_else));
}

void require_layers_everywhere(const Handover& handover, std::string_view target) {
  for (const Pipeline& pipeline : handover.plan.pipelines)
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
      if (pipeline.stages[s].layers.first == pipeline.stages[s].layers.second)
        refuse(target,
               fmt::format("stage {} has no layers ({}); {} needs one at least in every stage; use --to "
                           "megatron, or plan with fewer stages",
                           s, split_text(pipeline), target));
}

void require_no_chunks(const Handover& handover, std::string_view target) {
  if (const int chunks = stage_chunks(handover.job); chunks > 1)
    refuse(target,
           fmt::format("schedule interleaved with {} chunks a device; {} has one stage a device; plan with "
                       "schedule 1f1b",
                       chunks, target));
}

const Transformer& require_transformer(const Handover& handover, std::string_view target) {
  const auto* transformer = std::get_if<Transformer>(&handover.job.model);
  if (!transformer)
    refuse(target,
           fmt::format(
               "the model is a chain of unlike layers, and {} trains transformers; use --to torchrun and "
               "rank_table.json with a trainer of your own",
               target));
  return *transformer;
}

void require_whole_heads(const Handover& handover, std::string_view target) {
  const int heads = require_transformer(handover, target).heads;
  for (const Pipeline& pipeline : handover.plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (heads % static_cast<int>(stage.devices.size()) != 0)
        refuse(target, fmt::format("{} heads are no multiple of tp={}; plan with another --tensor", heads,
                                   stage.devices.size()));
}

void require_alike(const Handover& handover, std::string_view target) {
  require_equal_depth(handover, target);
  require_common_split(handover, target);
  require_equal_micro_batches(handover, target);
}

bool is_like_llama(const Transformer& model) {
  return model.rms_norm && model.gated && !model.learned_positions;
}

std::optional<std::size_t> stage_over_machines(const Handover& handover) {
  const auto host_of = [&](int device) -> const std::string& { return handover.places[at(device)].host; };
  for (const Pipeline& pipeline : handover.plan.pipelines)
    for (std::size_t s = 0; s < pipeline.stages.size(); ++s)
      for (const int device : pipeline.stages[s].devices)
        if (host_of(device) != host_of(pipeline.stages[s].devices.front())) return s;
  return std::nullopt;
}

int stages_of(const Handover& handover) {
  return static_cast<int>(first_of(handover).stages.size());
}

int replicas_of(const Handover& handover) {
  return static_cast<int>(handover.plan.pipelines.size());
}

std::vector<int> layer_counts(const Handover& handover) {
  return counts_of(first_of(handover));
}

std::vector<std::pair<int, int>> virtual_stages(const Handover& handover) {
  return computed_layers(first_of(handover), stage_chunks(handover.job));
}

int micro_batches_of(const Handover& handover) {
  return first_of(handover).micro_batches;
}

int round_of(const Handover& handover) {
  return std::min(handover.job.parallelism.flush.value_or(micro_batches_of(handover)),
                  micro_batches_of(handover));
}

int degree_of(const Handover& handover) {
  return static_cast<int>(first_of(handover).stages.front().devices.size());
}

}  // namespace dtfm::exporter
