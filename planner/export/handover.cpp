#include "planner/export/handover.hpp"

#include <algorithm>

#include "planner/core/index.hpp"

namespace dtfm {
namespace {

/// Layers of every virtual stage of a pipeline, [stage][chunk]: chunk 0 of each stage, then chunk 1, …, as
/// layers follow each other in the model. The planner gives a stage so many layers; which ones they are
/// follows from their order.
std::vector<std::vector<std::pair<int, int>>> virtual_stages(const Pipeline& pipeline, int chunks) {
  std::vector<std::vector<std::pair<int, int>>> layers(pipeline.stages.size());
  int begin = 0;
  for (int chunk = 0; chunk < chunks; ++chunk)
    for (std::size_t stage = 0; stage < layers.size(); ++stage) {
      const auto [first, last] = pipeline.stages[stage].layers;
      const auto [from, to] = even_split(last - first, chunks, chunk);
      layers[stage].emplace_back(begin, begin + to - from);
      begin = layers[stage].back().second;
    }
  return layers;
}

}  // namespace

int chunks_of(const Job& job) {
  return job.parallelism.schedule == "interleaved" ? job.parallelism.chunks.value_or(1) : 1;
}

std::vector<Seat> seats_of(const Plan& plan, const Job& job, RankOrder order) {
  std::vector<Seat> seats;
  for (std::size_t p = 0; p < plan.pipelines.size(); ++p) {
    const auto layers = virtual_stages(plan.pipelines[p], chunks_of(job));
    for (std::size_t s = 0; s < layers.size(); ++s) {
      const std::vector<int>& devices = plan.pipelines[p].stages[s].devices;
      for (std::size_t t = 0; t < devices.size(); ++t)
        seats.push_back(
            {devices[t], static_cast<int>(p), static_cast<int>(s), static_cast<int>(t), layers[s]});
    }
  }
  if (order == RankOrder::stage_major)
    std::stable_sort(seats.begin(), seats.end(),
                     [](const Seat& a, const Seat& b) { return a.stage < b.stage; });
  return seats;
}

std::string_view order_name(RankOrder order) {
  return order == RankOrder::stage_major ? "stage-major" : "pipeline-major";
}

std::vector<int> micro_batch_counts(const Plan& plan) {
  std::vector<int> counts;
  for (const Pipeline& pipeline : plan.pipelines) counts.push_back(pipeline.micro_batches);
  return counts;
}

std::map<std::string, std::vector<int>> ranks_by_address(const Handover& handover) {
  std::map<std::string, std::vector<int>> ranks;
  for (int rank = 0; rank < handover.world(); ++rank) ranks[handover.place(rank).address].push_back(rank);
  return ranks;
}

}  // namespace dtfm
