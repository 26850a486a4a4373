#include "planner/cost/bounds/pipeline_capacity.hpp"

#include <algorithm>

#include "core/base/infinity.hpp"

namespace dtfm::cost {
namespace {

int rounded_up(int dividend, int divisor) {
  return static_cast<int>((static_cast<long long>(dividend) + divisor - 1) / divisor);
}

/// The least value from `first` to `last` for which `holds` is true. `holds` must be monotonic. It is not
/// called for `last`, where it must be true.
template <class Predicate>
int first_in(int first, int last, const Predicate& holds) {
  while (first < last) {
    const int middle = first + (last - first) / 2;
    if (holds(middle))
      last = middle;
    else
      first = middle + 1;
  }
  return first;
}

/// A pipeline that is to compute `micro_batches` in `rounds`, which end with a flush, within `limit_s`.
struct Trial {
  int stages = 1, micro_batches = 1, rounds = 1, in_flight = 1;
  double limit_s = infinity;
  PipelineCosts costs = {};
};

/// What follows the last backward pass of a stage with these layers: its synchronization, and for the first
/// stage also the step of the first layer, whose synchronization takes part.
double after_s(const BoundInputs& in, const PipelineCosts& costs, std::pair<int, int> layers) {
  const double bytes = in.gradients_before[at(layers.second)] - in.gradients_before[at(layers.first)];
  const double sync_s = in.model.problem.job.execution.overlap ? 0 : costs.device_sync_s(bytes);
  if (layers.first > 0) return sync_s;
  return std::max(sync_s, costs.first_sync_s) + in.layer_times.first_update_s;
}

/// Lower bound on the time of one micro-batch: it passes all stages and hops, forward and backward. If the
/// schedule splits the backward, only the forward of the path is counted, because weight gradients are
/// computed in parallel to it. The hops take at least `min_hops_s`.
double micro_batch_path_s(const BoundInputs& in, int stages, double min_hops_s) {
  const WorkBound& work =
      traits(in.model.schedule).splits_backward ? in.layer_times.forward : in.layer_times.forward_backward;
  return work.sum_s +
         std::max(in.hops.round_trip.sum(stages) + 4 * in.compression_s * (stages - 1), min_hops_s);
}

/// Whether a stage with these layers, the `stage`-th, may finish in time. After the last gradients have
/// returned to the first stage, this takes at least `first_s`.
///
/// gpipe: at the last micro-batch of a round, the forward phase has taken the latency of one micro-batch plus
/// (m − 1) times the slowest stage or hop. The same holds for the backward phase up to this stage, which
/// crosses only the hops behind it, and up to the first stage, which crosses all. The stages before it may
/// run their last backward pass while it synchronizes its gradients, but the first stage synchronizes later.
///
/// Other schedules: the stage waits for its first input, computes all its work, and then synchronizes its
/// gradients. Or else the last gradients go back to the first stage, which then synchronizes all of its
/// layers.
bool stage_runs(const BoundInputs& in, const Trial& trial, std::pair<int, int> layers, int stage,
                double first_s) {
  const auto within = [&](const std::vector<double>& before) {
    return before[at(layers.second)] - before[at(layers.first)];
  };
  const WorkBound &forwards = in.layer_times.forward, &backwards = in.layer_times.backward;
  const HopBounds& hops = in.hops;
  const PipelineCosts& costs = trial.costs;
  const ScheduleTraits& schedule = traits(in.model.schedule);
  const int stages = trial.stages;
  const double limit_s = trial.limit_s;
  const double forward = within(forwards.before_s), backward = within(backwards.before_s),
               both = within(in.layer_times.forward_backward.before_s);
  const double own_after_s = after_s(in, costs, layers);
  if (layers.first == 0) first_s = own_after_s;
  const double path_s = micro_batch_path_s(in, stages, costs.hop_s),
               others = trial.micro_batches - trial.rounds;
  const double waited_s = forwards.before_s[at(layers.first)] + hops.one_way.sum(stage + 1);
  if (schedule.forwards_first) {
    const double hop = std::max(costs.hop_busy_s, hops.one_way_occupancy.max_edge(stages));
    const double phases = std::max(both, std::max(forward, hop) + std::max(backward, hop));
    if (layers.first == 0) return trial.rounds * path_s + others * phases + own_after_s <= limit_s;
    const double behind = layers.second == in.layers ? 0 : hops.one_way_occupancy.max_edge(stages - stage);
    const double steady = std::max(both, std::max(forward, hop) + std::max(backward, behind));
    const double last_s =
        forwards.sum_s + hops.one_way.sum(stages) + backwards.sum_s - backwards.before_s[at(layers.first)];
    return (trial.rounds - 1) * path_s + last_s + others * steady + own_after_s <= limit_s &&
           trial.rounds * path_s + others * phases + first_s <= limit_s;
  }
  if (waited_s + trial.micro_batches * both + own_after_s > limit_s) return false;
  const double slowest = std::max({forward, costs.hop_busy_s, hops.round_trip_occupancy.max_edge(stages)});
  if (schedule.splits_backward) return trial.rounds * path_s + others * slowest <= limit_s;
  const double back_s =
      backwards.before_s[at(layers.first)] + hops.round_trip.sum(stage + 1) - hops.one_way.sum(stage + 1);
  return waited_s + trial.micro_batches * both + back_s + first_s <= limit_s &&
         trial.rounds * path_s + others * std::max(slowest, backward) + first_s <= limit_s;
}

/// Whether a device has enough memory for these layers. If not, more frequent flushes may help.
bool stage_fits(const BoundInputs& in, std::pair<int, int> layers, int in_flight) {
  const MemoryBound& memory = in.memory;
  return memory.has(
      memory.state_before[at(layers.second)] - memory.state_before[at(layers.first)] +
          in_flight * in.model.by_degree.front().least_kept_bytes(layers) * in.model.smallest_degree_share(),
      1);
}

/// The largest end of a stage that begins at `begin`: at least `begin`, which means that there is none.
template <class CanEnd>
int furthest_end(int begin, int layers, const CanEnd& can_end) {
  if (can_end(layers)) return layers;
  int low = begin, high = layers;
  while (low + 1 < high) {
    const int middle = (low + high) / 2;
    (can_end(middle) ? low : high) = middle;
  }
  return low;
}

/// Whether the layers can be cut into at most `trial.stages` stages that fit with `trial.in_flight`
/// micro-batches, and run. The later a stage begins, the further it may reach, so the fewest stages have as
/// many layers as possible, from the second stage on. The more layers the first one has, the longer it
/// synchronizes when the last gradients have returned, so all of its ends are tried.
bool can_cut(const BoundInputs& in, const Trial& trial, bool& exceeds_memory) {
  const auto end_of = [&](int begin, int stage, double first_s) {
    return furthest_end(begin, in.layers, [&](int end) {
      if (!stage_runs(in, trial, {begin, end}, stage, first_s)) return false;
      const bool fits = stage_fits(in, {begin, end}, trial.in_flight);
      exceeds_memory = exceeds_memory || !fits;
      return fits;
    });
  };
  const auto can_cut_rest = [&](int begin, double first_s) {
    for (int stage = 1; stage < trial.stages && begin < in.layers; ++stage) {
      const int end = end_of(begin, stage, first_s);
      if (end == begin) return false;
      begin = end;
    }
    return begin == in.layers;
  };
  double shorter_s = infinity;
  for (int first = end_of(0, 0, 0); first > 0; --first) {
    const double first_s = after_s(in, trial.costs, {0, first});
    if (!(first_s < shorter_s)) continue;  // no better for the others, which would have more layers
    if (can_cut_rest(first, first_s)) return true;
    shorter_s = first_s;
  }
  return false;
}

/// Whether a gpipe pipeline may finish in time with some number of flushes. The more rounds there are, the
/// less memory and the more time they take: a micro-batch's path through the pipeline takes at least as long
/// as any stage or hop in both directions. So rounds between the least number that fits, and the largest one
/// that is in time, are tried, and of those with the same number of micro-batches in flight only the first.
/// The attempts are limited, so that their number does not grow with that of the micro-batches; beyond the
/// limit the answer is yes, which only makes the bound lower.
bool flushes_help(const BoundInputs& in, const Trial& trial) {
  constexpr int max_attempts = 100;
  bool exceeds_memory = false;
  const int micro_batches = trial.micro_batches;
  const auto may_run = [&](int rounds, int in_flight) {
    return can_cut(in, {trial.stages, micro_batches, rounds, in_flight, trial.limit_s, trial.costs},
                   exceeds_memory);
  };
  const auto fits = [&](int rounds) {
    return can_cut(in, {trial.stages, micro_batches, rounds, rounded_up(micro_batches, rounds)},
                   exceeds_memory);
  };
  const auto is_late = [&](int rounds) { return !may_run(rounds, 1); };
  if (!fits(micro_batches) || is_late(1)) return false;
  const int most = first_in(1, micro_batches + 1, is_late) - 1;
  int attempts = 0;
  for (int rounds = first_in(1, micro_batches, fits); rounds <= most;) {
    const int in_flight = rounded_up(micro_batches, rounds);
    if (++attempts > max_attempts || may_run(rounds, in_flight)) return true;
    if (in_flight == 1) return false;
    rounds = rounded_up(micro_batches, in_flight - 1);
  }
  return false;
}

/// Lower bound on the seconds per micro-batch of the slowest device, which has several chunks: an equal share
/// of all work, the largest layer, and as many of the smallest layers as the device with the most layers has
/// at least.
double slowest_device_s(const BoundInputs& in, int devices) {
  const WorkBound& work = in.layer_times.forward_backward;
  return std::max({in.balanced.forward_backward / in.rates.sums[at(devices)], work.largest_s,
                   work.smallest_sums_s[at(rounded_up(in.layers, devices))]});
}

bool pipeline_runs(const BoundInputs& in, int stages, int micro_batches, const PipelineCosts& costs,
                   double limit_s) {
  const IterationModel& model = in.model;
  const double first_s = costs.first_sync_s + in.layer_times.first_update_s;
  if (traits(model.schedule).has_chunks)
    return micro_batches * slowest_device_s(in, stages) + first_s <= limit_s;
  const bool forwards_first = traits(model.schedule).forwards_first;
  bool exceeds_memory = false;
  const int rounds = model.flush > 0 ? rounded_up(micro_batches, model.flush) : 1;
  const int in_flight = forwards_first && !model.sharding.gradients ? rounded_up(micro_batches, rounds) : 1;
  const Trial trial{stages, micro_batches, rounds, in_flight, limit_s, costs};
  if (can_cut(in, trial, exceeds_memory)) return true;
  // Flushes cost time, and reduce memory under gpipe.
  return exceeds_memory && model.flush == 0 && forwards_first && flushes_help(in, trial);
}

}  // namespace

bool may_fit_cut(const BoundInputs& inputs, int stages) {
  bool exceeds_memory = false;
  return can_cut(inputs, {stages}, exceeds_memory);
}

std::vector<double> max_micro_batches_by_depth(const BoundInputs& inputs, const PipelineCosts& costs,
                                               int min_stages, int max_stages, const PlanLimits& limits,
                                               double limit_s) {
  std::vector<double> most(at(std::min(max_stages, limits.stages.value_or(inputs.max_stages))));
  if (costs.sync.seconds_per_byte == infinity) return most;
  for (int depth = std::max(min_stages, limits.stages.value_or(1)); depth <= static_cast<int>(most.size());
       ++depth) {
    throw_if_stopped(inputs.stop);
    int low = 0, high = inputs.micro_batches + 1;
    while (low + 1 < high) {
      const int middle = (low + high) / 2;
      (pipeline_runs(inputs, depth, middle, costs, limit_s) ? low : high) = middle;
    }
    most[at(depth - 1)] = low;
  }
  return most;
}

}  // namespace dtfm::cost
