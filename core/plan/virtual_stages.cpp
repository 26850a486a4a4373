#include "core/plan/virtual_stages.hpp"

#include <utility>

#include <fmt/format.h>

#include "core/base/error.hpp"

namespace dtfm {

int stage_chunks(const Job& job) {
  return traits(job.execution.schedule).has_chunks ? job.execution.chunks.value_or(1) : 1;
}

std::vector<std::pair<int, int>> virtual_stage_layers(const Pipeline& pipeline, int chunks) {
  std::vector<std::pair<int, int>> layer_ranges;
  int next = pipeline.stages.front().layers.first;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (const Stage& stage : pipeline.stages) {
      const auto [begin, end] = stage.layers;
      if (chunks > 1 && end - begin < chunks)
        throw Error("",
                    fmt::format("schedule interleaved: {} chunks exceed the number of layers of a device, "
                                "{}; use fewer chunks or fewer stages",
                                chunks, end - begin));
      const auto part = even_split(end - begin, chunks, chunk);
      layer_ranges.emplace_back(next, next + part.second - part.first);
      next = layer_ranges.back().second;
    }
  return layer_ranges;
}

Plan expand_virtual_stages(const Plan& plan) {
  if (!traits(plan.execution.schedule).has_chunks) return plan;
  Plan result = plan;
  for (Pipeline& pipeline : result.pipelines) {
    const Pipeline whole = std::exchange(pipeline, {pipeline.micro_batches, {}});
    for (const auto& layers : virtual_stage_layers(whole, plan.execution.chunks.value_or(1)))
      pipeline.stages.push_back({layers, devices_of(whole, pipeline.stages.size())});
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
