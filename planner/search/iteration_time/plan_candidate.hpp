// Plans by iteration time, as the strategies of planner/search hand them to each other.
#pragma once

#include <memory>
#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"
#include "planner/cost/iteration_time/migration_cost.hpp"

namespace dtfm::search {

/// A job in which everything is decided, with all that estimates of it need. Does not change.
struct DecidedJob {
  /// `tensors`: the degrees of stages, ascending.
  DecidedJob(const Problem& of, const Job& job, const std::vector<int>& tensors,
             std::shared_ptr<const cost::NetworkCost> network)
      : problem{of.topology, job, of.constants, of.roofline}, model(problem, tensors, std::move(network)) {}
  DecidedJob(const DecidedJob&) = delete;
  DecidedJob& operator=(const DecidedJob&) = delete;

  /// Then a unit may be cut, and units of one host joined, as the degrees allow.
  bool has_mixed_degrees() const { return model.by_degree.size() > 1; }

  Problem problem;
  cost::IterationModel model;
  std::vector<std::vector<int>>
      tensor_groups;  // devices of a possible stage, in nearness order; their times are known
};

/// Whether the job asks for it; then degrees are alike too.
inline bool requires_uniform_pipelines(const DecidedJob& job) {
  return job.problem.job.parallelism.uniform_pipelines;
}

/// The most stages that there can be.
inline int max_tensor_groups(const DecidedJob& job) {
  std::size_t devices = 0;
  for (const auto& tensor_group : job.tensor_groups) devices += tensor_group.size();
  return static_cast<int>(devices) / job.model.by_degree.front().tensor();
}

/// Micro-batches of a pipeline come in multiples of this.
inline int batch_step(const DecidedJob& job, int stages) {
  return traits(job.model.schedule).in_rounds ? stages : 1;
}

/// What pipelines are to be like.
struct Shape {
  int stages = 0, replicas = 0;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

/// With more pipelines, all have the same layers: their exchanges would be cut into too many pieces to be
/// worth it, and to be estimated fast; unlike pipelines then differ in micro-batches alone.
inline constexpr std::size_t max_heterogeneous_pipelines = 8;

struct PlanCandidate {
  std::shared_ptr<const DecidedJob> job;
  Plan plan;
  int flush = 0;                           // 0: the pipelines drain once an iteration
  double iteration_s = 0;                  // estimated
  double deficit_bytes = 0;                // bytes that do not fit
  cost::MigrationEstimate migration = {};  // before its first iteration, where there is a plan to go on from
  double egress_usd = 0;                   // of an iteration, for what is sent
  double score = 0;                        // what is minimised, among those that fit

  Shape shape() const {
    return {static_cast<int>(plan.pipelines.front().stages.size()), static_cast<int>(plan.pipelines.size())};
  }
};

/// Those that fit before those that do not; then less missing memory, or a lower score.
inline bool is_better(const PlanCandidate& a, const PlanCandidate& b) {
  if ((a.deficit_bytes > 0) != (b.deficit_bytes > 0)) return a.deficit_bytes <= 0;
  return a.deficit_bytes > 0 ? a.deficit_bytes < b.deficit_bytes : a.score < b.score;
}

}  // namespace dtfm::search
