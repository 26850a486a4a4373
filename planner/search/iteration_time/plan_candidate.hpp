// Plans as the steps of the search by iteration time pass them to each other.
#pragma once

#include <memory>
#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"
#include "planner/cost/iteration_time/migration_cost.hpp"

namespace dtfm::search {

/// A job without open decisions, with everything that its estimates need. Immutable.
struct DecidedJob {
  /// `tensors`: tensor degrees of stages, ascending.
  DecidedJob(const Problem& of, const Job& job, const std::vector<int>& tensors,
             std::shared_ptr<const cost::NetworkCost> network)
      : problem{of.topology, job, of.constants, of.roofline}, model(problem, tensors, std::move(network)) {}
  DecidedJob(const DecidedJob&) = delete;
  DecidedJob& operator=(const DecidedJob&) = delete;

  /// If so, tensor-parallel groups may be split, and groups of one host joined, as the degrees allow.
  bool has_mixed_degrees() const { return model.by_degree.size() > 1; }

  Problem problem;
  cost::IterationModel model;
  // Devices of possible stages, in nearness order; their compute times are known.
  std::vector<std::vector<int>> tensor_groups;
  // Largest tensor degree on each GPU model: [index of the model in the topology + 1]. Empty unless degrees
  // are mixed.
  std::vector<int> max_degrees;
};

/// Whether the job requires uniform pipelines, which also have a single tensor degree.
inline bool requires_uniform_pipelines(const DecidedJob& job) {
  return job.problem.job.parallelism.uniform_pipelines;
}

/// Maximum number of stages in all pipelines together.
inline int max_tensor_groups(const DecidedJob& job) {
  std::size_t devices = 0;
  for (const auto& tensor_group : job.tensor_groups) devices += tensor_group.size();
  return static_cast<int>(devices) / job.model.by_degree.front().devices();
}

/// The micro-batches of a pipeline must be a multiple of this.
inline int batch_step(const DecidedJob& job, int stages) {
  return traits(job.model.schedule).in_rounds ? stages : 1;
}

struct Shape {
  int stages = 0, replicas = 0;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

/// Plans with more pipelines have the same layers in all of them; heterogeneous pipelines then differ only in
/// micro-batches. Otherwise gradient synchronization would consist of too many pieces to be worth it, and to
/// be estimated fast.
inline constexpr std::size_t max_heterogeneous_pipelines = 8;

struct PlanCandidate {
  std::shared_ptr<const DecidedJob> job;
  Plan plan;                 // its execution is that of the job, except for flushes that the search adds
  double iteration_s = 0;    // estimated
  double deficit_bytes = 0;  // by which devices exceed their memory
  cost::MigrationEstimate migration = {};  // before its first iteration, in a warm start
  double egress_usd = 0;                   // per iteration
  double score = 0;                        // minimized among the plans that fit in memory

  /// Stages of the deepest pipeline, and number of pipelines.
  Shape shape() const { return {depth(plan), static_cast<int>(plan.pipelines.size())}; }
};

/// Score of a plan for annealing: one that exceeds memory costs twice as much, plus as much again for every
/// GB.
inline double energy_of(double score, double deficit_bytes) {
  return deficit_bytes > 0 ? score * (2 + deficit_bytes / 1e9) : score;
}
inline double energy_of(const PlanCandidate& it) {
  return energy_of(it.score, it.deficit_bytes);
}

/// Plans that fit in memory come first; then those that exceed it less, or have a lower score.
inline bool is_better(const PlanCandidate& a, const PlanCandidate& b) {
  if ((a.deficit_bytes > 0) != (b.deficit_bytes > 0)) return a.deficit_bytes <= 0;
  return a.deficit_bytes > 0 ? a.deficit_bytes < b.deficit_bytes : a.score < b.score;
}

}  // namespace dtfm::search
