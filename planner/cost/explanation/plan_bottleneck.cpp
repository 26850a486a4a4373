#include "planner/cost/explanation/plan_bottleneck.hpp"

#include <algorithm>

#include "planner/core/index.hpp"
#include "planner/core/virtual_stages.hpp"

namespace dtfm::cost {
namespace {

/// By which a station is made slower: below what tells two stations apart, above rounding.
constexpr double slower_by = 1.0 / 1024;

/// Of the pipeline's time, what hangs on that which `slow` makes slower.
template <class Slow>
double hanging_s(PipelineSchedule schedule, const PipelineWork& work, const Slow& slow) {
  PipelineWork slower = work;
  slow(slower);
  return (pipeline_time(schedule, slower).end_s - pipeline_time(schedule, work).end_s) / slower_by;
}

void slow_down(double& seconds) {
  seconds *= 1 + slower_by;
}

void slow_down(HopTime& hop) {
  for (double* seconds : {&hop.occupancy_s, &hop.latency_s, &hop.shared_s, &hop.in_step_s, &hop.others_s,
                          &hop.among_s, &hop.beside_sent_s, &hop.beside_received_s, &hop.overhead_s})
    slow_down(*seconds);
}

int stages_of(const IterationTimer& timer, int pipeline) {
  return static_cast<int>(timer.plan().pipelines[at(pipeline)].stages.size());
}

Reasons reasons_of(IterationTimer& timer, int pipeline) {
  const PipelineSchedule schedule = timer.model().schedule;
  const PipelineWork& work = timer.work(pipeline);
  const double compute = hanging_s(schedule, work, [](PipelineWork& it) {
    for (double& seconds : it.forward_s) slow_down(seconds);
    for (double& seconds : it.backward_s) slow_down(seconds);
  });
  const double sending = hanging_s(schedule, work, [](PipelineWork& it) {
    for (HopTime& hop : it.forward_hops) slow_down(hop);
    for (HopTime& hop : it.backward_hops) slow_down(hop);
  });
  return {compute, sending};
}

/// What one micro-batch more takes, without a drain.
double steady_s(PipelineSchedule schedule, PipelineWork work, int devices) {
  work.flush = 0;
  if (schedule != PipelineSchedule::interleaved) return pipeline_time(schedule, work).steady_s;
  const double before = pipeline_time(schedule, work).end_s;
  work.micro_batches += devices;  // the least that may be added
  return (pipeline_time(schedule, work).end_s - before) / devices;
}

IterationParts parts_of(IterationTimer& timer, int slowest) {
  const IterationEstimate estimate = timer.estimate();
  const PipelineWork& work = timer.work(slowest);
  IterationParts parts;
  if (work.micro_batches > 0) {
    const bool drains = work.flush > 0 && work.flush < work.micro_batches;
    const int rounds = drains ? (work.micro_batches + work.flush - 1) / work.flush : 1;
    const double all =
        (work.micro_batches - rounds) * steady_s(timer.model().schedule, work, stages_of(timer, slowest));
    parts.steady_s = std::min(all, estimate.pipelines_s);
  }
  parts.fill_s = estimate.pipelines_s - parts.steady_s;
  parts.exchange_s = std::max(0.0, estimate.exchanges_s - estimate.pipelines_s);
  parts.update_s = estimate.update_s;
  parts.overhead_s = estimate.overhead_s;
  return parts;
}

/// Bytes of weights, gradients and optimizer on a device of the stage.
double state_bytes(const IterationTimer& timer, int pipeline, int stage) {
  const Pipeline& it = timer.plan().pipelines[at(pipeline)];
  const auto computed = computed_layers(it, timer.model().chunks);
  const StageCosts& costs = timer.model().stages_of(it.stages[at(stage)].devices.size());
  double sum = 0;
  for (std::size_t i = at(stage); i < computed.size(); i += at(stages_of(timer, pipeline)))
    sum += costs.needs(computed[i]).state;
  return sum;
}

std::optional<FullestDevice> fullest_device(IterationTimer& timer) {
  std::optional<FullestDevice> fullest;
  const auto fullness = [](const DeviceMemory& it) { return it.needed / it.capacity; };
  for (const DeviceMemory& it : timer.memory())
    if (!fullest || fullness(it) > fullness(fullest->memory)) fullest = FullestDevice{it, 0};
  if (!fullest) return fullest;
  const auto& pipelines = timer.plan().pipelines;
  for (std::size_t pipeline = 0; pipeline < pipelines.size(); ++pipeline)
    for (std::size_t stage = 0; stage < pipelines[pipeline].stages.size(); ++stage) {
      const std::vector<int>& devices = pipelines[pipeline].stages[stage].devices;
      if (std::find(devices.begin(), devices.end(), fullest->memory.device) != devices.end())
        fullest->state = state_bytes(timer, static_cast<int>(pipeline), static_cast<int>(stage));
    }
  return fullest;
}

}  // namespace

std::vector<Station> stations(IterationTimer& timer, int pipeline) {
  const PipelineSchedule schedule = timer.model().schedule;
  const PipelineWork& work = timer.work(pipeline);
  const std::size_t devices = at(stages_of(timer, pipeline));
  std::vector<Station> result;
  for (std::size_t stage = 0; stage < devices; ++stage) {
    const double seconds = hanging_s(schedule, work, [&](PipelineWork& it) {
      for (std::size_t i = stage; i < it.forward_s.size(); i += devices) {
        slow_down(it.forward_s[i]);
        slow_down(it.backward_s[i]);
      }
    });
    result.push_back({false, pipeline, static_cast<int>(stage), seconds, 0});
  }
  const auto all_hops = [&](std::size_t stage, const auto& slow) {
    return hanging_s(schedule, work, [&](PipelineWork& it) {
      for (std::size_t i = stage; i < it.forward_hops.size(); i += devices) {
        slow(it.forward_hops[i]);
        slow(it.backward_hops[i]);
      }
    });
  };
  for (std::size_t stage = 0; stage < std::min(devices, work.forward_hops.size()); ++stage)
    result.push_back({true, pipeline, static_cast<int>(stage),
                      all_hops(stage, [](HopTime& hop) { slow_down(hop); }),
                      all_hops(stage, [](HopTime& hop) { slow_down(hop.latency_s); })});
  return result;
}

PlanBottleneck plan_bottleneck(IterationTimer& timer) {
  const IterationEstimate estimate = timer.estimate();
  const auto& ends = estimate.pipeline_s;
  const int slowest = static_cast<int>(std::max_element(ends.begin(), ends.end()) - ends.begin());
  PlanBottleneck result;
  result.parts = parts_of(timer, slowest);
  result.reasons = reasons_of(timer, slowest);
  result.fullest = fullest_device(timer);
  using Kind = Bottleneck::Kind;
  result.binds = {Kind::stages, result.reasons.compute_s, 0};
  const auto offer = [&](Kind kind, double seconds) {
    if (seconds > result.binds.seconds) result.binds = {kind, seconds, 0};
  };
  offer(Kind::hops, result.reasons.sending_s);
  const Kind of_pipeline = result.binds.kind;
  offer(Kind::exchange, result.parts.exchange_s);
  offer(Kind::update, result.parts.update_s);
  offer(Kind::overhead, result.parts.overhead_s);
  if (estimate.iteration_s > 0) result.binds.share = result.binds.seconds / estimate.iteration_s;
  for (const Station& station : stations(timer, slowest)) {
    if (station.is_hop != (of_pipeline == Kind::hops)) continue;
    if (station.seconds > result.station.seconds || result.station.pipeline < 0) result.station = station;
  }
  return result;
}

bool is_compute_bound(IterationTimer& timer) {
  const IterationEstimate estimate = timer.estimate();
  if (estimate.exchanges_s - estimate.pipelines_s >= compute_bound_exchanges * estimate.iteration_s)
    return false;
  for (int pipeline = 0; pipeline < static_cast<int>(timer.plan().pipelines.size()); ++pipeline)
    if (const Reasons reasons = reasons_of(timer, pipeline); reasons.sending_s >= reasons.compute_s)
      if (timer.work(pipeline).micro_batches > 0) return false;
  return true;
}

}  // namespace dtfm::cost
