#include "core/schedule/schedule.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

constexpr auto schedules = std::to_array<ScheduleTraits>({
    {.kind = Schedule::gpipe,
     .name = "gpipe",
     .order = gpipe_order,
     .in_flight = gpipe_in_flight,
     .in_jobs = true,
     .is_candidate = true,
     .forwards_first = true,
     .keeps_boundary_buffers = true},
    {.kind = Schedule::one_f_one_b,
     .name = "1f1b",
     .order = one_f_one_b_order,
     .in_flight = one_f_one_b_in_flight,
     .in_jobs = true,
     .is_candidate = true,
     .alternates = true},
    // As DeepSpeed (runtime/pipe/engine.py) and Megatron-LM (core/pipeline_parallel/p2p_communication.py) run
    // it.
    {.kind = Schedule::one_f_one_b_blocking,
     .name = "1f1b-blocking",
     .order = one_f_one_b_order,
     .in_flight = one_f_one_b_in_flight,
     .in_jobs = true,
     .is_blocking = true,
     .alternates = true},
    {.kind = Schedule::interleaved,
     .name = "interleaved",
     .order = interleaved_order,
     .in_flight = interleaved_in_flight,
     .in_jobs = true,
     .is_candidate = true,
     .has_chunks = true,
     .in_rounds = true},
    // As torch.distributed.pipelining is assumed to run it (docs/targets.md).
    {.kind = Schedule::interleaved_blocking,
     .name = "interleaved-blocking",
     .order = interleaved_order,
     .in_flight = interleaved_in_flight,
     .in_jobs = true,
     .has_chunks = true,
     .in_rounds = true,
     .is_blocking = true},
    {.kind = Schedule::zero_bubble_h1,
     .name = "zb-h1",
     .order = zero_bubble_h1_order,
     .in_flight = zero_bubble_h1_in_flight,
     .in_jobs = true,
     .splits_backward = true},
    {.kind = Schedule::eager_one_f_one_b,
     .name = "eager-1f1b",
     .order = eager_one_f_one_b_order,
     .in_flight = eager_one_f_one_b_in_flight,
     .in_jobs = true,
     .is_candidate = true,
     .has_planned_warm_up = true},
    {.kind = Schedule::zero_bubble_greedy,
     .name = "zb-greedy",
     .order = zero_bubble_greedy_order,
     .in_flight = zero_bubble_greedy_in_flight,
     .in_jobs = true,
     .is_candidate = true,
     .splits_backward = true,
     .has_planned_passes = true},
    // Micro-batches take paths of their own (path_schedule.hpp), which give the order.
    {.kind = Schedule::paths, .name = "paths"},
});
static_assert(has_row_for_each(schedules, Schedule::paths));

}  // namespace

std::span<const ScheduleTraits> schedule_table() {
  return schedules;
}

const ScheduleTraits& traits(Schedule schedule) {
  return row_of(schedules, schedule);
}

std::string_view name_of(Schedule schedule) {
  return traits(schedule).name;
}

void check_schedule(Schedule kind, const PipelinePosition& position) {
  const ScheduleTraits& schedule = traits(kind);
  if (position.chunks > 1 && !schedule.has_chunks)
    throw Error("",
                fmt::format("schedule {} has one stage per device, not {}; remove the chunks or use schedule "
                            "interleaved",
                            schedule.name, position.chunks));
  if (schedule.in_rounds && position.micro_batches % position.devices != 0)
    throw Error("",
                fmt::format("schedule {} requires a multiple of {} micro-batches, the number of devices of a "
                            "pipeline; found {}; change the number of micro-batches, the flush interval or "
                            "the number of stages",
                            schedule.name, position.devices, position.micro_batches));
}

std::vector<Operation> operation_order(Schedule schedule, const PipelinePosition& position, int flush) {
  const ScheduleTraits& row = traits(schedule);
  if (row.order == nullptr)
    throw Error("", fmt::format("schedule {} requires a path for each micro-batch", row.name));
  const int round = flush > 0 ? flush : std::max(1, position.micro_batches);
  std::vector<Operation> order;
  for (int done = 0; done < position.micro_batches; done += round) {
    PipelinePosition part = position;
    part.micro_batches = std::min(round, position.micro_batches - done);
    check_schedule(schedule, part);
    for (Operation operation : row.order(part)) {
      operation.micro_batch += done;
      order.push_back(operation);
    }
  }
  return order;
}

}  // namespace dtfm
