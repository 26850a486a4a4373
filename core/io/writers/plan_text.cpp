#include "core/io/writers/plan_text.hpp"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/io/text/format_number.hpp"
#include "core/io/text/units.hpp"
#include "core/plan/shards.hpp"

namespace dtfm::io {
namespace {

/// " (0 to 12 layers per stage)"; empty if the plan does not say.
std::string format_recompute_layers(const Plan& plan) {
  if (!traits(plan.execution.recomputation).is_per_stage()) return "";
  std::optional<int> fewest, most;
  for (const Pipeline& pipeline : plan.pipelines)
    for (const Stage& stage : pipeline.stages)
      if (const auto count = stage.recompute_layers) {
        fewest = std::min(fewest.value_or(*count), *count);
        most = std::max(most.value_or(*count), *count);
      }
  if (!fewest) return "";
  return fmt::format(" ({}{} per {})", fewest == most ? "" : fmt::format("{} to ", *fewest),
                     format_count(*most, "layer"), plan.execution.chunks ? "chunk" : "stage");
}

}  // namespace

std::string format_depth(const Plan& plan) {
  return (are_equally_deep(plan) ? "" : fmt::format("{}–", min_depth(plan))) +
         format_count(depth(plan), "stage");
}

std::string format_shape(const Plan& plan) {
  const std::string least = are_equally_deep(plan) ? "" : fmt::format("{}–", min_depth(plan));
  const std::string shape = fmt::format("{}{} × {}", least, depth(plan), plan.pipelines.size());
  const int devices = plan.tensor * plan.execution.token_parts();
  if (plan.execution.token_parts() > 1) return fmt::format("{} × {} devices", shape, devices);
  return plan.tensor > 1 ? fmt::format("{} × {} tensor", shape, plan.tensor) : shape;
}

std::string format_layers(std::pair<int, int> layers) {
  const auto [begin, end] = layers;
  if (begin == end) return "none";
  return end - begin == 1 ? fmt::format("{}", begin) : fmt::format("{}–{}", begin, end - 1);
}

std::string format_layers(const std::vector<std::pair<int, int>>& parts) {
  std::string text;
  for (const auto& layers : parts) text += (text.empty() ? "" : ", ") + format_layers(layers);
  return text;
}

std::string format_sharding(const ExecutionConfig& execution) {
  return execution.optimizer_sharding == OptimizerSharding::none
             ? ""
             : fmt::format(", {}", name_of(execution.optimizer_sharding));
}

std::string format_job_decisions(const Job& job, const Plan& plan) {
  std::string text = fmt::format("{}, {}{}, micro-batch {}, recompute {}", name_of(job.execution.schedule),
                                 name_of(job.execution.gradient_sync), format_sharding(job.execution),
                                 job.execution.micro_batch, name_of(job.execution.recomputation));
  if (const auto layers = job.execution.recompute_layers)
    text += fmt::format(" (recompute_layers: {})", *layers);
  text += format_recompute_layers(plan);
  if (plan.tensor > 1)
    text += fmt::format(", {} tensor-parallel devices per stage{}", fmt::join(tensor_degrees(plan), " or "),
                        job.parallelism.sequence_parallel ? "" : " without sequence parallelism");
  if (const int expert = job.execution.expert; expert > 1)
    text += fmt::format(
        ", experts divided among {} devices{}", expert,
        job.execution.expert_dispatch == ExpertDispatch::hierarchical ? " with hierarchical dispatch" : "");
  if (const int context = job.execution.context; context > 1)
    text += fmt::format(", sequences divided among {} groups of devices ({})", context,
                        name_of(job.execution.context_exchange));
  if (const auto groups = job.execution.stage_data)
    text += fmt::format(", {} data-parallel groups per stage", *groups);
  if (job.execution.chunks) text += fmt::format(", {} chunks per device", *job.execution.chunks);
  if (const auto flush = job.execution.flush)
    text += *flush == 1 ? ", pipeline flush after every micro-batch"
                        : fmt::format(", pipeline flush every {} micro-batches", *flush);
  const auto add = [&](std::string_view what, double ratio, const std::optional<CompressionPreset>& preset) {
    if (ratio != 1)
      text += fmt::format(", {} × {:.4g}{}", what, ratio, preset ? " (" + name_of(*preset) + ")" : "");
  };
  add("activations", job.execution.compression.activations, job.execution.compression.activation_preset);
  add("gradients", job.execution.compression.gradients, job.execution.compression.gradient_preset);
  const bool compresses =
      job.execution.compression.activations != 1 || job.execution.compression.gradients != 1;
  if (const auto bandwidth_threshold = job.execution.compression.bandwidth_threshold;
      bandwidth_threshold && compresses)
    text += fmt::format(" on links slower than {}", format_rate(*bandwidth_threshold));
  return text;
}

}  // namespace dtfm::io
