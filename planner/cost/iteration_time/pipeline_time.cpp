#include "planner/cost/iteration_time/pipeline_time.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "planner/cost/iteration_time/greedy_order.hpp"
#include "planner/cost/iteration_time/pipeline_unroll.hpp"
#include "planner/cost/iteration_time/warm_up.hpp"

namespace dtfm::cost {
namespace {

int stages_of(const PipelineWork& work) {
  return static_cast<int>(work.forward_s.size());
}

/// Chain of resources (stages and hops) that all messages pass in order: the sum of their times so far, and
/// the largest.
struct ResourceChain {
  double micro_batches = 0, sum_s = 0, max_s = 0;

  void append(double resource_s, double latency_s = 0) {
    sum_s += resource_s + latency_s;
    max_s = std::max(max_s, resource_s);
  }
  void append(const HopTime& hop) { append(hop.occupancy_s, hop.latency_s); }
  double done_s() const { return sum_s + (micro_batches - 1) * max_s; }
};

PipelineTime gpipe_time(const PipelineWork& work) {
  const int stages = stages_of(work);
  PipelineTime time;
  time.backward_s.resize(at(stages));
  time.gradients_s.resize(at(stages));
  ResourceChain forward{static_cast<double>(work.micro_batches)}, backward = forward;
  for (int stage = 0; stage < stages; ++stage) {
    forward.append(work.forward_s[at(stage)]);
    if (stage + 1 < stages) forward.append(work.forward_hops[at(stage)]);
  }
  time.forwards_s = forward.done_s();
  for (int stage = stages - 1; stage >= 0; --stage) {
    backward.append(work.backward_s[at(stage)]);
    time.end_s = time.backward_s[at(stage)] = time.forwards_s + backward.done_s();
    if (stage > 0) backward.append(work.backward_hops[at(stage - 1)]);
    time.gradients_s[at(stage)] = time.forwards_s + backward.done_s();
  }
  time.steady_s = forward.max_s + backward.max_s;
  return time;
}

/// Sends messages over one boundary, one after the other.
struct Sender {
  double free_s = 0;

  /// Arrival time of a micro-batch that is ready at `ready_s`.
  double arrival(double ready_s, const HopTime& hop) {
    free_s = std::max(free_s, ready_s) + hop.occupancy_s;
    return free_s + hop.latency_s;
  }
};

/// Evaluates the first `micro_batches` micro-batches by the definition of the schedule. In round i, a stage
/// with a warm-up of w forwards computes forward i and then backward i − w. Both depend only on this round
/// and earlier ones, because the next stage has no longer warm-up. With a `delays` of d, the backward is
/// split, and weight gradient i − w − d follows; in the cool-down, one follows each input gradient, and d
/// remain.
PipelineTime alternating_paths(const PipelineWork& work, const std::vector<int>& warm_ups,
                               const std::vector<int>& delays, int micro_batches) {
  const int stages = stages_of(work);
  PipelineTime time;
  time.backward_s.assign(at(stages), 0);
  time.gradients_s.assign(at(stages), 0);
  std::vector<double> free(at(stages)), forward_arrived(at(stages)),
      backward_arrived(at(stages * micro_batches));
  std::vector<Sender> there(at(stages)), back(at(stages));
  for (int round = 0; round < micro_batches + warm_ups.front(); ++round) {
    for (int stage = 0; round < micro_batches && stage < stages; ++stage) {
      double& now = free[at(stage)];
      now = std::max(now, forward_arrived[at(stage)]) + work.forward_s[at(stage)];
      if (stage + 1 < stages)
        forward_arrived[at(stage + 1)] = there[at(stage)].arrival(now, work.forward_hops[at(stage)]);
      else
        backward_arrived[at(stage * micro_batches + round)] = now;
    }
    for (int stage = stages - 1; stage >= 0; --stage) {
      const int micro_batch = round - warm_ups[at(stage)];
      if (micro_batch < 0 || micro_batch >= micro_batches) continue;
      double& now = free[at(stage)];
      const double weight_gradient_s = delays.empty() ? 0 : work.weight_gradient_s[at(stage)];
      now = std::max(now, backward_arrived[at(stage * micro_batches + micro_batch)]) +
            work.backward_s[at(stage)] - weight_gradient_s;
      time.gradients_s[at(stage)] = now;
      if (stage > 0) {
        const double arrival = back[at(stage)].arrival(now, work.backward_hops[at(stage - 1)]);
        backward_arrived[at((stage - 1) * micro_batches + micro_batch)] = time.gradients_s[at(stage)] =
            arrival;
      }
      if (!delays.empty() && micro_batch >= delays[at(stage)]) now += weight_gradient_s;
      time.backward_s[at(stage)] = now;
    }
  }
  for (std::size_t stage = 0; stage < delays.size(); ++stage)
    time.gradients_s[stage] = time.backward_s[stage] +=
        std::min(delays[stage], micro_batches) * work.weight_gradient_s[stage];
  time.end_s = *std::max_element(time.backward_s.begin(), time.backward_s.end());
  return time;
}

/// Plan files may have long warm-ups. Throws Error if too many micro-batches would have to be evaluated.
void check_evaluated(const PipelineWork& work, int micro_batches) {
  constexpr double most = 2e7;  // computations, as many as the simulator accepts
  if (static_cast<double>(stages_of(work)) * micro_batches > most)
    throw Error("", fmt::format("{} micro-batches in {} stages are too many to estimate; shorten `warm_up`",
                                micro_batches, stages_of(work)));
}

PipelineTime alternating_time(const PipelineWork& work, const std::vector<int>& warm_ups,
                              const std::vector<int>& delays = {}) {
  std::vector<int> within = warm_ups;
  for (int& it : within) it = std::min(it, work.micro_batches);
  // Micro-batches until the steady state.
  const long long steady_after = 3 * (within.front() + 1LL) + 4;
  const auto micro_batches = static_cast<int>(std::min<long long>(work.micro_batches, steady_after));
  check_evaluated(work, micro_batches);
  PipelineTime time = alternating_paths(work, within, delays, micro_batches);
  time.steady_s = alternating_steady_s(work, warm_ups, !delays.empty());
  time.delay((work.micro_batches - micro_batches) * time.steady_s);
  return time;
}

bool shares_links(const PipelineWork& work) {
  const auto shares = [](const HopTime& hop) { return !hop.links.empty(); };
  return std::any_of(work.forward_hops.begin(), work.forward_hops.end(), shares) ||
         std::any_of(work.backward_hops.begin(), work.backward_hops.end(), shares);
}

/// A third of the micro-batches of given passes, or of as many as their devices hold, whichever is more.
long long ordered_third(const PipelineWork& work) {
  std::size_t most = 0;
  for (const PassOrder& it : work.passes)
    most = std::max({most, it.size() / 3, 3 * (at(max_in_flight(it)) + 2)});
  return static_cast<long long>(most + 2) / 3;
}

/// Extrapolates from a few unrolled micro-batches. After `warm_up` of them the pipeline is in steady state,
/// whose period is assumed to divide `warm_up`. The cool-down is as long as the warm-up.
PipelineTime unrolled_time(Schedule schedule, const PipelineWork& work) {
  const int ahead = work.warm_ups.empty() ? 0 : std::min(work.warm_ups.front(), work.micro_batches) + 1;
  const long long warm_up =
      work.passes.empty() ? 2LL * std::max(stages_of(work) / work.chunks, ahead) : ordered_third(work);
  PipelineWork first = work;
  first.micro_batches = static_cast<int>(std::min<long long>(work.micro_batches, 3 * warm_up));
  check_evaluated(work, first.micro_batches);
  UnrolledPipeline unrolled = unroll_pipeline(schedule, first);
  PipelineTime& time = unrolled.time;
  if (first.micro_batches < 3 * warm_up) {
    time.steady_s = time.end_s / work.micro_batches;
    return time;
  }
  const double grown = unrolled.micro_batch_done_s[static_cast<std::size_t>(2 * warm_up - 1)] -
                       unrolled.micro_batch_done_s[static_cast<std::size_t>(warm_up - 1)];
  time.steady_s = std::max(grown / static_cast<double>(warm_up), busiest_s(work));
  time.delay((work.micro_batches - first.micro_batches) * time.steady_s);
  return time;
}

/// Extrapolates a schedule that computes all forwards first, whose phases each grow with every micro-batch.
PipelineTime unrolled_phases(Schedule schedule, const PipelineWork& work) {
  const int warm_up = 2 * stages_of(work);
  PipelineWork part = work;
  part.micro_batches = std::min(work.micro_batches, 3 * warm_up);
  PipelineTime time = unroll_pipeline(schedule, part).time;
  part.micro_batches -= std::min(warm_up, part.micro_batches - 1);
  const PipelineTime before = unroll_pipeline(schedule, part).time;
  const double grown = std::min(work.micro_batches, 3 * warm_up) - part.micro_batches,
               rest = std::max(0, work.micro_batches - 3 * warm_up);
  if (grown == 0) {
    time.steady_s = time.end_s;
    return time;
  }
  time.steady_s = (time.end_s - before.end_s) / grown;
  time.forwards_s += rest * (time.forwards_s - before.forwards_s) / grown;
  time.delay(rest * time.steady_s);
  return time;
}

/// Time of `work` without a flush before its end.
PipelineTime time_of_round(Schedule schedule, const PipelineWork& work) {
  if (work.micro_batches == 0)
    return {std::vector<double>(work.forward_s.size()), std::vector<double>(work.forward_s.size())};
  check_schedule(schedule, {stages_of(work) / work.chunks, 0, work.chunks, work.micro_batches});
  const ScheduleTraits& row = traits(schedule);
  if (row.has_planned_passes && work.passes.empty()) {
    const ZeroBubbleLimits limits = zero_bubble_limits(work, usual_scale);
    if (work.messaging == Messaging::ahead && !shares_links(work))
      return alternating_time(work, limits.warm_ups, limits.delays);
    PipelineWork planned = work;
    planned.passes = alternating_passes(work, limits);
    return unrolled_time(schedule, planned);
  }
  if (work.messaging != Messaging::ahead)
    return row.forwards_first ? unrolled_phases(schedule, work) : unrolled_time(schedule, work);
  if (row.forwards_first) return gpipe_time(work);
  if (!shares_links(work) && row.has_planned_warm_up) return alternating_time(work, work.warm_ups);
  if (!shares_links(work) && row.alternates && !row.is_blocking)
    return alternating_time(work, shortest_warm_ups(stages_of(work)));
  return unrolled_time(schedule, work);
}

}  // namespace

void PipelineTime::delay(double seconds) {
  for (double& it : backward_s) it += seconds;
  for (double& it : gradients_s) it += seconds;
  end_s += seconds;
}

double busiest_s(const PipelineWork& work) {
  const std::size_t stages = work.forward_s.size(), devices = stages / at(work.chunks);
  double most = 0;
  for (std::size_t device = 0; device < devices; ++device) {
    double computing = 0, there = 0, back = 0;
    for (std::size_t stage = device; stage < stages; stage += devices) {
      computing += work.forward_s[stage] + work.backward_s[stage];
      if (stage + 1 < stages) there += work.forward_hops[stage].occupancy_s;
      if (stage > 0) back += work.backward_hops[stage - 1].occupancy_s;
    }
    most = std::max({most, computing, there, back});
  }
  return most;
}

/// Rounds between flushes do not overlap, because the first stage is the last to end a round, and starts the
/// next one. If the backward is split, the first stage does not wait for the weight gradients of the others,
/// so the result is an upper bound.
PipelineTime pipeline_time(Schedule schedule, const PipelineWork& work) {
  if (traits(schedule).has_planned_warm_up && work.warm_ups.empty()) {
    PipelineWork planned = work;
    planned.warm_ups = choose_warm_ups(work);
    return pipeline_time(schedule, planned);
  }
  if (work.flush <= 0 || work.flush >= work.micro_batches) return time_of_round(schedule, work);
  PipelineWork round = work;
  round.micro_batches = work.flush;
  const int full = flush_count(work.flush, work.micro_batches) - 1;  // rounds before the last
  const PipelineTime of_full = time_of_round(schedule, round);
  round.micro_batches = work.micro_batches - full * work.flush;
  PipelineTime time = time_of_round(schedule, round);
  time.delay(full * of_full.end_s);
  time.forwards_s += full * of_full.forwards_s;
  time.steady_s = of_full.end_s / work.flush;
  return time;
}

}  // namespace dtfm::cost
