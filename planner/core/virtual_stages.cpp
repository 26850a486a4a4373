#include "planner/core/virtual_stages.hpp"

#include <fmt/format.h>

#include "planner/core/error.hpp"

namespace dtfm {

int stage_chunks(const Job& job) {
  return job.parallelism.schedule == "interleaved" ? job.parallelism.chunks.value_or(1) : 1;
}

std::vector<std::pair<int, int>> computed_layers(const Pipeline& pipeline, int chunks) {
  std::vector<std::pair<int, int>> computed;
  int next = pipeline.stages.front().layers.first;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (const Stage& stage : pipeline.stages) {
      const auto [begin, end] = stage.layers;
      if (chunks > 1 && end - begin < chunks)
        throw Error("",
                    fmt::format("schedule interleaved: {} layers of a device cannot be cut into {} chunks",
                                end - begin, chunks));
      const auto part = even_split(end - begin, chunks, chunk);
      computed.emplace_back(next, next + part.second - part.first);
      next = computed.back().second;
    }
  return computed;
}

std::vector<std::vector<std::pair<int, int>>> layers_of_stages(const Pipeline& pipeline, int chunks) {
  const auto computed = computed_layers(pipeline, chunks);
  std::vector<std::vector<std::pair<int, int>>> result(pipeline.stages.size());
  for (std::size_t i = 0; i < computed.size(); ++i) result[i % result.size()].push_back(computed[i]);
  return result;
}

}  // namespace dtfm
