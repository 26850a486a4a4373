// The order in which a device computes the micro-batches of its stage. A schedule is one value of the enum,
// one file in core/schedule/, and one row of the table in schedule.cpp (docs/add-a-schedule.md).
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace dtfm {

enum class Schedule : unsigned char {
  gpipe,
  one_f_one_b,
  one_f_one_b_blocking,
  interleaved,
  interleaved_blocking,
  zero_bubble_h1,
  eager_one_f_one_b,
  zero_bubble_greedy,
  paths
};

struct Operation {
  /// If the schedule splits the backward pass, `backward` computes the gradients of a stage's input, which
  /// the previous stage waits for, and `weight_gradient` those of its parameters, which are not
  /// needed before the gradient synchronization. Otherwise `backward` computes both.
  enum class Kind : unsigned char { forward, backward, weight_gradient };
  Kind kind = Kind::forward;
  int chunk = 0;  // index of the stage on its device
  int micro_batch = 0;

  friend bool operator==(const Operation&, const Operation&) = default;
};

/// The kinds of the operations of a device, in the order in which it computes them. Those of one kind follow
/// the order of the micro-batches.
using PassOrder = std::vector<Operation::Kind>;

/// What a plan says about the order of a device, if its schedule leaves that to plans.
struct PlannedOrder {
  std::optional<int> warm_up = {};  // forwards before the first backward (Stage::warm_up)
  PassOrder passes = {};            // empty: not given (Stage::passes)

  friend bool operator==(const PlannedOrder&, const PlannedOrder&) = default;
};

/// The position of a device in its pipeline. With chunks, device d of p has the stages d, d + p, …, d +
/// (chunks − 1) · p.
struct PipelinePosition {
  int devices = 1, device = 0;
  int chunks = 1;
  int micro_batches = 1;
  PlannedOrder planned = {};
};

struct ScheduleTraits {
  Schedule kind;
  std::string_view name;
  /// The operations of a device between two pipeline flushes: every forward and every backward of every
  /// micro-batch and chunk once. Null: the order is not a function of the position.
  std::vector<Operation> (*order)(const PipelinePosition&) = nullptr;
  /// The maximum number of micro-batches, over all chunks of a device, between the start of their first and
  /// the end of their last operation in `order`.
  int (*in_flight)(const PipelinePosition&) = nullptr;
  bool in_jobs = false;          // a job may name it; only schemes use the others
  bool is_candidate = false;     // the planner tries it if the job says `auto`
  bool has_chunks = false;       // a device computes several stages
  bool in_rounds = false;        // micro-batches must be a multiple of the devices of a pipeline
  bool splits_backward = false;  // into `backward` and `weight_gradient`
  bool is_blocking = false;      // a device resumes computing when what it sends has arrived
  /// Between two flushes all forwards come before all backwards: a device holds every micro-batch at once,
  /// and messages go in one direction at a time.
  bool forwards_first = false;
  /// 1F1B: after its warm-up, a device with one stage computes one forward and one backward in turn.
  bool alternates = false;
  /// Plans have the numbers of forwards before the first backward (Stage::warm_up).
  bool has_planned_warm_up = false;
  /// Plans have the order of the operations of each stage (Stage::passes).
  bool has_planned_passes = false;
  /// The trainer has four buffers per micro-batch: for input and output, and for the gradients of both.
  bool keeps_boundary_buffers = false;
};

/// A row for each value, in the order of the enum.
std::span<const ScheduleTraits> schedule_table();
const ScheduleTraits& traits(Schedule schedule);
std::string_view name_of(Schedule schedule);

/// All micro-batches forward, then all backward in the same order (Huang et al., GPipe, arXiv 1811.06965).
std::vector<Operation> gpipe_order(const PipelinePosition& position);
int gpipe_in_flight(const PipelinePosition& position);
/// min(p − d − 1, m) forwards, then one forward and one backward in turn, then the remaining backwards
/// (Narayanan et al., arXiv 1806.03377 and 2104.04473).
std::vector<Operation> one_f_one_b_order(const PipelinePosition& position);
int one_f_one_b_in_flight(const PipelinePosition& position);
/// 1F1B with a longer warm-up, so that messages take their time while devices compute (eager-1F1B: Zhuang et
/// al., arXiv 2211.05322, section 4): `warm_up` forwards, or 2 (p − d − 1), twice as many as under 1F1B.
std::vector<Operation> eager_one_f_one_b_order(const PipelinePosition& position);
int eager_one_f_one_b_in_flight(const PipelinePosition& position);
/// 1F1B over chunks (arXiv 2104.04473, 2.2). Expects micro-batches to be a multiple of the devices.
std::vector<Operation> interleaved_order(const PipelinePosition& position);
int interleaved_in_flight(const PipelinePosition& position);
/// 1F1B with delayed weight gradients (ZB-H1: Qi et al., arXiv 2401.10241, section 2.2), which shorten the
/// bubble from (p − 1)(F + B + W) to (p − 1)(F + B − W), for F, B and W seconds of forward, input and weight
/// gradients.
std::vector<Operation> zero_bubble_h1_order(const PipelinePosition& position);
int zero_bubble_h1_in_flight(const PipelinePosition& position);
/// The order in the plan: forwards, input gradients and weight gradients in the order that suits the times of
/// this pipeline (list scheduling; CrossPipe: Chen et al., arXiv 2507.00217). If the plan has it for another
/// number of micro-batches, the last ones are left out, or the middle of the order repeats. If it has none,
/// it is 1F1B with a split backward.
std::vector<Operation> zero_bubble_greedy_order(const PipelinePosition& position);
int zero_bubble_greedy_in_flight(const PipelinePosition& position);
/// The maximum number of micro-batches between the start of their forward and the end of their weight
/// gradient.
int max_in_flight(const PassOrder& passes);
/// Whether stages that compute in these orders, one after the other in a pipeline, all reach their end. The
/// orders must have the same operations.
bool can_complete(std::span<const PassOrder* const> stages);

/// Throws Error if a pipeline of these sizes cannot run the schedule; `device` has no effect.
void check_schedule(Schedule schedule, const PipelinePosition& position);

/// The operations of a device in an iteration with a pipeline flush after every `flush` micro-batches (0:
/// only at the end). Throws Error if the schedule cannot be run.
std::vector<Operation> operation_order(Schedule schedule, const PipelinePosition& position, int flush);

}  // namespace dtfm
