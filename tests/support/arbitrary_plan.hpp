// Random plans of a random problem, for properties that hold for every plan.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/index.hpp"
#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "core/plan/virtual_stages.hpp"
#include "tests/support/random_problem.hpp"

namespace dtfm {

/// Randomizes all training settings of a job except the schedule.
inline void set_training(Rng& rng, Job& job, Schedule schedule) {
  const GradientSync syncs[] = {GradientSync::sharded_ps, GradientSync::central_ps, GradientSync::ring,
                                GradientSync::tree, GradientSync::hierarchical};
  job.execution.schedule = schedule;
  job.execution.gradient_sync = syncs[rng.below(5)];
  job.execution.overlap = rng.below(2) == 0;
  if (job.execution.schedule == Schedule::interleaved)
    job.execution.chunks = 1 + static_cast<int>(rng.below(2));
  else if (rng.below(3) == 0)
    job.execution.flush = 1 + static_cast<int>(rng.below(8));
  if (rng.below(3) == 0) {
    job.execution.compression = {0.25, 0.5, std::nullopt};
    if (rng.below(2) == 0) job.execution.compression.throughput = BitsPerSecond(random_size(rng, 1e9, 1e12));
    if (rng.below(2) == 0)
      job.execution.compression.bandwidth_threshold = BitsPerSecond(random_size(rng, 1e7, 1e10));
    if (rng.below(4) == 0) job.execution.compression.gradients = 8;  // more bytes than uncompressed
  }
}

/// Randomizes the schedule, too.
inline void set_training(Rng& rng, Job& job) {
  const Schedule schedules[] = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved,
                                Schedule::zero_bubble_h1, Schedule::one_f_one_b_blocking};
  set_training(rng, job, schedules[rng.below(std::size(schedules))]);
}

/// Gives some jobs a schedule whose orders are part of the plan, or chosen for it. Draws no random numbers.
inline void set_planned_schedule(std::uint64_t seed, Job& job) {
  if (seed % 4 > 1 || job.execution.schedule == Schedule::interleaved) return;
  job.execution.schedule = seed % 4 == 0 ? Schedule::zero_bubble_greedy : Schedule::eager_one_f_one_b;
}

/// The last layer shares half of its parameters with the first one, like a tied embedding.
inline void tie_last_layer(Job& job) {
  Layer& last = std::get<LayerChain>(job.model).layers.back();
  last.tied_parameters = last.parameters / 2;
}

/// Returns a random split of the layers into stages of at least `min_layers` layers.
inline std::vector<std::pair<int, int>> random_split(Rng& rng, int layers, int stages, int min_layers) {
  std::vector<int> sizes(at(stages), min_layers);
  for (int left = layers - stages * min_layers; left > 0; --left)
    ++sizes[rng.below(static_cast<std::uint32_t>(stages))];
  std::vector<std::pair<int, int>> split;
  int begin = 0;
  for (const int size : sizes) {
    split.emplace_back(begin, begin + size);
    begin += size;
  }
  return split;
}

/// Distributes the layers of every stage over its chunks at random. A chunk may get none.
inline void split_virtual_stages(Rng& rng, Plan& plan) {
  for (Pipeline& pipeline : plan.pipelines)
    for (Stage& stage : pipeline.stages) {
      std::vector<int> counts;
      for (const auto& [begin, end] :
           random_split(rng, stage.layers.second - stage.layers.first, stage_chunks(plan.execution), 0))
        counts.push_back(end - begin);
      set_virtual_layers(stage, counts);
    }
}

/// Returns a plan of any shape: devices in any order, any layer split (shared or not), any number of
/// micro-batches per pipeline. The job's batch is set to the total of the pipelines. A stage has at most
/// `tensor` devices; if that is 2 and `any_degree` is set, each stage has one or two.
inline Plan arbitrary_plan(Rng& rng, Problem& problem, int tensor, bool any_degree = false) {
  Job& job = problem.job;
  const int layers = layer_count(job.model), chunks = job.execution.chunks.value_or(1);
  const int slots = problem.topology->size() / tensor;
  const int stages =
      1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(std::min(slots, layers / chunks))));
  const int replicas = 1 + static_cast<int>(rng.below(static_cast<std::uint32_t>(slots / stages)));
  std::vector<int> order(at(problem.topology->size()));
  for (int i = 0; i < problem.topology->size(); ++i) order[at(i)] = i;
  rng.shuffle(std::span<int>(order));
  Plan plan{tensor, job.execution, {}};
  const bool has_common_cuts = rng.below(2) == 0;
  int all = 0;
  for (int replica = 0; replica < replicas; ++replica) {
    const int multiple = job.execution.schedule == Schedule::interleaved ? stages : 1;
    Pipeline pipeline{multiple * static_cast<int>((replica == 0 ? 1 : 0) + rng.below(12)), {}};
    all += pipeline.micro_batches;
    const auto split = has_common_cuts && replica > 0 ? std::vector<std::pair<int, int>>{}
                                                      : random_split(rng, layers, stages, chunks);
    for (int stage = 0; stage < stages; ++stage) {
      Stage it{split.empty() ? plan.pipelines.front().stages[at(stage)].layers : split[at(stage)], {}};
      const int degree = any_degree && rng.below(2) == 0 ? 1 : tensor;
      for (int rank = 0; rank < degree; ++rank)
        it.devices.push_back(order[at((replica * stages + stage) * tensor + rank)]);
      pipeline.stages.push_back(it);
    }
    plan.pipelines.push_back(pipeline);
  }
  job.training.global_batch = all * job.execution.micro_batch;
  return plan;
}

}  // namespace dtfm
