#include "core/plan/virtual_stages.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"

namespace dtfm {

namespace {

int layers_of(const Stage& stage) {
  return stage.layers.second - stage.layers.first;
}

/// Number of layers of a chunk if the stage is split evenly.
int even_layers(const Stage& stage, int chunks, int chunk) {
  const auto [begin, end] = even_split(layers_of(stage), chunks, chunk);
  return end - begin;
}

/// Throws Error unless the stage has layers for all chunks.
void check_layers(const Stage& stage, int chunks) {
  const std::vector<int>& own = stage.virtual_layers;
  if (chunks == 1) return;
  if (!own.empty()) {
    DTFM_ASSERT(own.size() == at(chunks) && std::accumulate(own.begin(), own.end(), 0) == layers_of(stage));
  } else if (layers_of(stage) < chunks) {
    throw Error("", fmt::format("schedule interleaved: {} chunks exceed the number of layers of a device, "
                                "{}; use fewer chunks or fewer stages",
                                chunks, layers_of(stage)));
  }
}

}  // namespace

int stage_chunks(const ExecutionConfig& execution) {
  return traits(execution.schedule).has_chunks ? execution.chunks.value_or(1) : 1;
}

void set_virtual_layers(Stage& stage, const std::vector<int>& counts) {
  const int chunks = static_cast<int>(counts.size());
  bool is_even = chunks == 1 || layers_of(stage) >= chunks;
  for (int chunk = 0; chunk < chunks; ++chunk)
    is_even = is_even && counts[at(chunk)] == even_layers(stage, chunks, chunk);
  if (!is_even) stage.virtual_layers = counts;
}

bool has_virtual_layers(const Plan& plan) {
  return std::any_of(plan.pipelines.begin(), plan.pipelines.end(), [](const Pipeline& pipeline) {
    return std::any_of(pipeline.stages.begin(), pipeline.stages.end(),
                       [](const Stage& stage) { return !stage.virtual_layers.empty(); });
  });
}

Plan without_virtual_layers(Plan plan) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) stage.virtual_layers.clear();
  return plan;
}

std::vector<std::pair<int, int>> virtual_stage_layers(const Pipeline& pipeline, int chunks) {
  for (const Stage& stage : pipeline.stages) check_layers(stage, chunks);
  std::vector<std::pair<int, int>> layer_ranges;
  int next = pipeline.stages.front().layers.first;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (const Stage& stage : pipeline.stages) {
      const bool is_even = chunks == 1 || stage.virtual_layers.empty();
      const int count = is_even ? even_layers(stage, chunks, chunk) : stage.virtual_layers[at(chunk)];
      layer_ranges.emplace_back(next, next + count);
      next += count;
    }
  return layer_ranges;
}

Plan expand_virtual_stages(const Plan& plan) {
  if (!traits(plan.execution.schedule).has_chunks) return plan;
  Plan result = plan;
  for (Pipeline& pipeline : result.pipelines) {
    const Pipeline whole = std::exchange(pipeline, {pipeline.micro_batches, {}});
    for (const auto& layers : virtual_stage_layers(whole, stage_chunks(plan.execution))) {
      const Stage& own = whole.stages[pipeline.stages.size() % whole.stages.size()];
      pipeline.stages.push_back(
          {.layers = layers, .devices = own.devices, .recompute_layers = own.recompute_layers});
    }
  }
  return result;
}

std::vector<std::vector<std::pair<int, int>>> layers_by_stage(const Pipeline& pipeline, int chunks) {
  const auto layer_ranges = virtual_stage_layers(pipeline, chunks);
  std::vector<std::vector<std::pair<int, int>>> result(pipeline.stages.size());
  for (std::size_t i = 0; i < layer_ranges.size(); ++i) result[i % result.size()].push_back(layer_ranges[i]);
  return result;
}

}  // namespace dtfm
