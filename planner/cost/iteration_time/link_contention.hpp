// How pipelines delay each other where their messages share links.
#pragma once

#include <span>
#include <vector>

#include "planner/cost/iteration_time/pipeline_cost.hpp"

namespace dtfm::cost {

/// Times of pipelines that share links. All start together.
///
/// - Equal pipelines are synchronized, and so are all pipelines if the schedule computes all forwards first.
///   They send over a stage boundary at the same time, so each message takes as long as the link needs for
///   all of them. Their messages over other boundaries on the same link wait for each other.
/// - Messages of other pipelines are sent at random times. If they occupy a link for a share ρ of the time, a
///   message of x seconds takes x / (1 − ρ) on average (Kleinrock, Queueing Systems II, 4.4: processor
///   sharing), but at most x plus the time of all of them divided by the pipeline's micro-batches.
/// - A pipeline does not end before every link that it uses has carried the messages of all pipelines.
class LinkContention {
 public:
  LinkContention(Schedule schedule, const NetworkCost& network);

  /// The result is valid until the next call. The time of a pipeline without contention is
  /// `PipelineCost::time`.
  const std::vector<const PipelineTime*>& times(std::span<const PipelineCost* const> costs);
  /// The work of pipeline `number` of the last call. Its messages take as long as under contention.
  const PipelineWork& work(int number) const { return contended_[static_cast<std::size_t>(number)].work; }

 private:
  struct Contended {
    PipelineWork work;
    PipelineTime time_of_work;
    PipelineTime time;  // with the delay by busy links
  };
  void add_up(std::span<const PipelineCost* const> costs);
  void count_equal(std::span<const PipelineCost* const> costs);
  std::size_t boundary(const LinkDemand& demand) const;
  double all_bytes(int capacity) const;
  double message_s(const PipelineCost& cost, int equal, const LinkDemand& demand) const;
  void set_contended_work(const PipelineCost& cost, int equal, PipelineWork& work) const;
  void delay_by_busy_links(const PipelineCost& cost, PipelineTime& time) const;

  Schedule schedule_;
  bool has_phases_;  // forward and backward messages are never sent at the same time
  const NetworkCost& network_;
  std::vector<double> forward_bytes_, backward_bytes_;  // per iteration, by capacity
  std::vector<int> used_;                               // capacities that carry bytes
  // Only with phases: of all pipelines, [boundary, direction][capacity], and the indices that are not 0.
  std::vector<double> boundary_bytes_;
  std::vector<std::size_t> used_boundaries_;
  std::vector<int> equal_;            // by pipeline: number of equal ones
  std::vector<Contended> contended_;  // by pipeline
  PipelineWork work_;                 // scratch
  std::vector<const PipelineTime*> times_;
};

}  // namespace dtfm::cost
