#include "planner/cost/bounds/iteration_bound.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/infinity.hpp"
#include "planner/cost/bounds/concave_majorant.hpp"
#include "planner/cost/bounds/device_group_bound.hpp"
#include "planner/cost/bounds/pipeline_capacity.hpp"

namespace dtfm::cost {
namespace {

/// Jobs with more layers are bounded by perfectly balanced compute alone, because cutting them takes long.
constexpr int max_cut_layers = 512;

bool can_cut_layers(const BoundInputs& in) {
  return in.layers <= max_cut_layers;
}

/// The sum of what the stages of pipeline_capacity.cpp take, weighted by their rates, if compute is perfectly
/// balanced over all devices. Each layer's gradients are synchronized by `computing` different stages, at
/// least.
double balanced_s(const BoundInputs& in, int computing, int replicas) {
  const IterationModel& model = in.model;
  const ScheduleTraits& schedule = traits(model.schedule);
  const std::vector<double>& rate_sums = in.rates.sums;
  const double rates = rate_sums[at(std::min(in.slots, computing * in.max_stages))];
  const double first_s = in.syncs[at(replicas)].first_sync_s + in.layer_times.first_update_s;
  const double synchronizing_rates = model.by_degree.size() == 1 && model.stages.devices() == 1
                                         ? rate_sums.back() - rate_sums[at(in.slots - computing)]
                                         : computing * in.rates.min;
  const bool overlaps = model.problem.job.execution.overlap || model.chunks > 1;
  const double sync = overlaps ? 0
                               : synchronizing_rates * in.syncs[at(replicas)].sync.seconds_per_byte *
                                     in.gradients_before.back();
  if (!schedule.forwards_first) {
    const double work = in.micro_batches * in.balanced.forward_backward;
    return std::max(work / rates + (schedule.splits_backward ? 0 : first_s), (work + sync) / rates);
  }
  const double work = (in.micro_batches - computing) * in.balanced.forward_backward;
  return std::max(in.layer_times.forward_backward.sum_s + work / rates + first_s,
                  in.layer_times.forward.sum_s + (work + computing * in.balanced.backward + sync) / rates);
}

double balanced_bound_s(const BoundInputs& in, const PlanLimits& limits, std::vector<double>& least_s) {
  for (int computing = 1; at(computing) <= least_s.size(); ++computing) {
    const int held = limits.replicas.value_or(computing);
    least_s[at(computing - 1)] =
        in.memory.has(held * in.memory.state, in.slots) ? balanced_s(in, computing, held) : infinity;
  }
  return *std::min_element(least_s.begin(), least_s.end());
}

/// Whether all micro-batches may be finished within `limit_s` by `computing` of the pipelines.
bool may_finish(const BoundInputs& in, const PlanLimits& limits, int computing, double limit_s) {
  const ConcaveMajorant majorant(max_micro_batches_by_depth(
      in, in.syncs[at(limits.replicas.value_or(computing))], 1, in.max_stages, limits, limit_s));
  return majorant.max_sum(computing, in.slots) >= in.micro_batches - 1e-6;
}

/// The least time from `low` to `least` in which all micro-batches may be finished by `computing` of the
/// pipelines; `least` may be infinite. Less if it is stopped.
double least_time_s(const BoundInputs& in, const PlanLimits& limits, int computing, double low,
                    double least) {
  const auto is_feasible = [&](double limit_s) { return may_finish(in, limits, computing, limit_s); };
  try {
    double high = std::isfinite(least) ? least : std::max(2 * low, 1e-9);
    if (!is_feasible(high)) {
      if (std::isfinite(least)) return high;
      do high *= 2;
      while (std::isfinite(high) && !is_feasible(high));
    }
    while (high - low > bisection_precision * high) {
      const double middle = (low + high) / 2;
      (is_feasible(middle) ? high : low) = middle;
    }
  } catch (const WorkStopped&) {  // nothing less than `low` is possible
  }
  return low;
}

double any_depth_bound_s(const BoundInputs& in, const PlanLimits& limits, std::vector<double>& least_s) {
  double least = infinity;
  for (int computing = 1; at(computing) <= least_s.size(); ++computing) {
    double& low = least_s[at(computing - 1)];
    if (low < least) low = least_time_s(in, limits, computing, low, least);
    least = std::min(least, low);
  }
  return least;
}

/// A bound on the time of all plans, of which the largest counts.
///
/// All bounds hold for any devices with known layer times at any tensor degrees of the model, with any layers
/// for the stages of each pipeline (at least one each) and any split of the job's micro-batches. A message
/// takes at least as long as over the best pair of devices, or over the cheapest pairs that connect the
/// required number of devices. Contention is ignored.
struct Bound {
  std::string_view name;
  bool (*applies)(const BoundInputs& in);
  /// Seconds without the iteration overhead. `least_s` has what earlier rows prove, by the number of
  /// pipelines with micro-batches minus 1: infinite if these do not fit in memory. A row may raise it.
  double (*seconds)(const BoundInputs& in, const PlanLimits& limits, std::vector<double>& least_s);
};

constexpr Bound bounds[] = {
    {"balanced compute", [](const BoundInputs&) { return true; }, balanced_bound_s},
    {"pipelines of any depth", can_cut_layers, any_depth_bound_s},
    {"groups of devices", [](const BoundInputs& in) { return can_cut_layers(in) && can_group_devices(in); },
     device_group_bound_s},
};

/// Necessary conditions for fitting in memory: every pipeline holds the state of all layers; the pipeline
/// with the most micro-batches also holds the activations of those in flight (under gpipe all between two
/// flushes, otherwise at least one); and one stage holds the largest layer. If the job leaves `flush` open, a
/// plan may flush after every micro-batch.
bool may_fit(const BoundInputs& in, int stages, int replicas) {
  const IterationModel& model = in.model;
  const MemoryBound& memory = in.memory;
  const int multiple = traits(model.schedule).in_rounds ? stages : 1;
  // Least possible number of micro-batches of the pipeline that has the most.
  const int most =
      multiple * static_cast<int>(std::ceil(static_cast<double>(in.micro_batches) / (replicas * multiple)));
  const bool holds_round = traits(model.schedule).forwards_first && !model.sharding.gradients;
  const int in_flight = std::min(holds_round && model.flush > 0 ? model.flush : 1, most);
  return memory.largest_layer <= memory.sums[1] &&
         memory.has(memory.state + in_flight * memory.per_micro_batch, stages) &&
         memory.has(replicas * memory.state, stages * replicas);
}

}  // namespace

int min_stages(const BoundInputs& in) {
  for (int stages = 1; stages <= in.max_stages; ++stages)
    for (int replicas = 1; replicas * stages <= in.slots; ++replicas)
      if (may_fit(in, stages, replicas)) return stages;
  return 0;
}

IterationBound iteration_bound(const BoundInputs& in, const PlanLimits& limits) {
  const IterationBound too_large{0, "no pipeline fits in memory", false, {}};
  const bool cuts = !traits(in.model.schedule).has_chunks && can_cut_layers(in);
  bool fits = false;
  for (int depth = limits.stages.value_or(1); depth <= limits.stages.value_or(in.max_stages) && !fits;
       ++depth)
    fits = may_fit(in, depth, 1) && (!cuts || may_fit_cut(in, depth));
  if (!fits) return too_large;
  const int most =
      std::min({in.slots / limits.stages.value_or(1), in.micro_batches, limits.replicas.value_or(in.slots)});
  std::vector<double> least_s(at(most));
  double largest_s = 0;
  std::string_view winner;
  for (const Bound& bound : bounds) {
    if (!bound.applies(in)) continue;
    const double seconds = bound.seconds(in, limits, least_s);
    if (!std::isfinite(seconds)) return too_large;
    if (seconds > largest_s || winner.empty()) winner = bound.name;
    largest_s = std::max(largest_s, seconds);
  }
  const double overhead = in.model.problem.constants.iteration_overhead_s;
  return {
      (largest_s + overhead) * (1 - bisection_precision),
      std::string("pipelines of any depths on the fastest devices, then gradient synchronization over the "
                  "best links") +
          (overhead > 0 ? ", plus the iteration overhead" : ""),
      true, winner};
}

}  // namespace dtfm::cost
