#include "planner/core/schedule/schedule.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "planner/core/error.hpp"

namespace dtfm {
namespace {

struct Schedule {
  std::string_view name;
  std::vector<Operation> (*order)(const PipelinePosition&);
  bool chunks;  // can devices hold several stages?
  bool rounds;  // must micro-batches be a multiple of the devices?
};

constexpr Schedule schedules[] = {{"gpipe", gpipe_order, false, false},
                                  {"1f1b", one_f_one_b_order, false, false},
                                  {blocking_schedule, one_f_one_b_order, false, false},
                                  {"interleaved", interleaved_order, true, true}};

void check(const Schedule& schedule, const PipelinePosition& position) {
  if (position.chunks > 1 && !schedule.chunks)
    throw Error("",
                fmt::format("schedule {} has one stage a device, not {}", schedule.name, position.chunks));
  if (schedule.rounds && position.micro_batches % position.devices != 0)
    throw Error("",
                fmt::format("schedule {} needs micro-batches in multiples of the {} devices of a pipeline; "
                            "there are {}",
                            schedule.name, position.devices, position.micro_batches));
}

}  // namespace

std::vector<Operation> operation_order(std::string_view name, const PipelinePosition& position, int flush) {
  const auto* schedule = std::find_if(std::begin(schedules), std::end(schedules),
                                      [&](const Schedule& it) { return it.name == name; });
  if (schedule == std::end(schedules)) throw Error("", fmt::format("there is no schedule `{}`", name));
  const int round = flush > 0 ? flush : std::max(1, position.micro_batches);
  std::vector<Operation> order;
  for (int done = 0; done < position.micro_batches; done += round) {
    PipelinePosition part = position;
    part.micro_batches = std::min(round, position.micro_batches - done);
    check(*schedule, part);
    for (Operation operation : schedule->order(part)) {
      operation.micro_batch += done;
      order.push_back(operation);
    }
  }
  return order;
}

}  // namespace dtfm
