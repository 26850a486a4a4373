// The parts of IterationBounds that concern plans whose pipelines may have different depths.
#include <algorithm>
#include <cmath>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "planner/cost/bounds/concave_majorant.hpp"
#include "planner/cost/bounds/iteration_bound.hpp"
#include "planner/cost/iteration_time/gradient_sync_time.hpp"

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

}  // namespace

/// Bounds on synchronization after the last backward pass of a device, by number of pipelines with
/// micro-batches. Pipelines without micro-batches may hold further replicas, so a bound must hold for any
/// larger number of replicas too.
void IterationBounds::find_sync() {
  const int max = static_cast<int>(rates_.size());
  syncs_.assign(at(max + 1), {});
  first_sync_s_.assign(at(max + 1), 0);
  if (model_.sharding.gradients) return;  // nearly all of it overlaps with computations
  const SyncPattern::Traffic traffic = sync_pattern(model_.sync).traffic;
  double first_s = infinity;
  // The devices of two hosts may send a message together.
  const int max_parts = traits(model_.sync).uses_channels ? collective_messages_.max_parts() : 1;
  for (int replicas = max; replicas > 1; --replicas) {
    first_s = std::min(first_s, compressed_sync_s(replicas, first_gradient_bytes_));
    first_sync_s_[at(replicas)] = first_s;
    Line& sync = syncs_[at(replicas)];
    sync.fixed_s = message_s(1, 0);
    if (traffic == SyncPattern::Traffic::to_each)
      sync.seconds_per_byte = 2 * traffic_.to_each_s(replicas - 1) / replicas;
    else if (traffic == SyncPattern::Traffic::around_ring)
      sync.seconds_per_byte = 2 * traffic_.total_s() * (replicas - 1) / replicas / max_parts;
    else
      sync.seconds_per_byte = traffic_.total_s() / max_parts;
  }
}

/// The costs of any pipeline if `replicas` of them have micro-batches.
IterationBounds::PipelineCosts IterationBounds::costs_of(int replicas) const {
  return {syncs_[at(replicas)], first_sync_s_[at(replicas)]};
}

/// Whether a stage with these layers, the `stage`-th of `stages`, may have finished within `limit_s`, if its
/// pipeline computes `micro_batches` in `rounds` that end with a flush.
///
/// gpipe: at the last micro-batch of a round, the forward phase has taken the latency of one micro-batch plus
/// (m − 1) times the slowest stage or hop. The same holds for the backward phase up to this stage, which
/// crosses only the hops behind it, and up to the first stage, which crosses all. The stages before it may
/// run their last backward pass while it synchronizes its gradients.
///
/// Other schedules: the stage waits for its first input, computes all its work, and then synchronizes its
/// gradients. Or else the last gradients go back to the first stage, which then synchronizes.
bool IterationBounds::stage_runs(std::pair<int, int> layers, int stage, int stages, int micro_batches,
                                 int rounds, const PipelineCosts& costs, double limit_s) const {
  const auto within = [&](const std::vector<double>& before) {
    return before[at(layers.second)] - before[at(layers.first)];
  };
  const ScheduleTraits& schedule = traits(model_.schedule);
  const bool overlap = model_.problem.job.execution.overlap, is_first = layers.first == 0;
  const double forward = within(layer_times_.forward.before_s),
               backward = within(layer_times_.backward.before_s),
               both = within(layer_times_.forward_backward.before_s);
  const double first_s = costs.first_sync_s + layer_times_.first_update_s;
  double after_s = overlap ? 0 : costs.device_sync_s(within(gradients_before_));
  if (is_first) after_s = std::max(after_s + layer_times_.first_update_s, first_s);
  const double path_s = micro_batch_path_s(stages, costs.hop_s), others = micro_batches - rounds;
  const double waited_s = layer_times_.forward.before_s[at(layers.first)] + one_way_.sum(stage + 1);
  if (schedule.forwards_first) {
    const double hop = std::max(costs.hop_busy_s, one_way_busy_.max_edge(stages));
    const double phases = std::max(both, std::max(forward, hop) + std::max(backward, hop));
    if (is_first) return rounds * path_s + others * phases + after_s <= limit_s;
    const double behind = layers.second == layers_ ? 0 : one_way_busy_.max_edge(stages - stage);
    const double steady = std::max(both, std::max(forward, hop) + std::max(backward, behind));
    const double last_s = layer_times_.forward.sum_s + one_way_.sum(stages) + layer_times_.backward.sum_s -
                          layer_times_.backward.before_s[at(layers.first)];
    return (rounds - 1) * path_s + last_s + others * steady + after_s <= limit_s &&
           rounds * path_s + others * phases + first_s <= limit_s;
  }
  if (waited_s + micro_batches * both + after_s > limit_s) return false;
  const double slowest = std::max({forward, costs.hop_busy_s, hop_busy_.max_edge(stages)});
  if (schedule.splits_backward) return rounds * path_s + others * slowest <= limit_s;
  const double back_s =
      layer_times_.backward.before_s[at(layers.first)] + hop_.sum(stage + 1) - one_way_.sum(stage + 1);
  return waited_s + micro_batches * both + back_s + first_s <= limit_s &&
         rounds * path_s + others * std::max(slowest, backward) + first_s <= limit_s;
}

/// Whether a device has enough memory for these layers. If not, more frequent flushes may help.
bool IterationBounds::stage_fits(std::pair<int, int> layers, int in_flight) const {
  return state_before_[at(layers.second)] - state_before_[at(layers.first)] +
             in_flight * model_.by_degree.front().kept_bytes(layers) * model_.smallest_degree_share() <=
         memory_sums_[1] * (1 + bisection_precision);
}

/// Whether the layers can be cut into at most `stages` stages that fit with `in_flight` micro-batches, and
/// run. The later a stage begins, the further it may reach, so the fewest stages have as many layers as
/// possible, from the first stage on.
bool IterationBounds::can_cut(int stages, int micro_batches, int rounds, int in_flight,
                              const PipelineCosts& costs, double limit_s, bool& exceeds_memory) const {
  int begin = 0;
  for (int stage = 0; stage < stages && begin < layers_; ++stage) {
    const auto can_end = [&](int end) {
      if (!stage_runs({begin, end}, stage, stages, micro_batches, rounds, costs, limit_s)) return false;
      const bool fits = stage_fits({begin, end}, in_flight);
      exceeds_memory = exceeds_memory || !fits;
      return fits;
    };
    if (can_end(layers_)) return true;
    int low = begin, high = layers_;  // the stage can end at `low`, unless that is its beginning
    while (low + 1 < high) {
      const int middle = (low + high) / 2;
      (can_end(middle) ? low : high) = middle;
    }
    if (low == begin) return false;
    begin = low;
  }
  return begin == layers_;
}

/// Whether a gpipe pipeline may finish within `limit_s` with some number of flushes. The more rounds there
/// are, the less memory and the more time they take: a micro-batch's path through the pipeline takes at least
/// as long as any stage or hop in both directions. So rounds between the least number that fits, and the
/// largest one that is in time, are tried, and of those with the same number of micro-batches in flight only
/// the first. The attempts are limited, so that their number does not grow with that of the micro-batches;
/// beyond the limit the answer is yes, which only makes the bound lower.
bool IterationBounds::flushes_help(int stages, int micro_batches, const PipelineCosts& costs,
                                   double limit_s) const {
  constexpr int max_attempts = 100;
  bool exceeds_memory = false;
  const auto fits = [&](int rounds) {
    return can_cut(stages, micro_batches, rounds, rounded_up(micro_batches, rounds), {}, infinity,
                   exceeds_memory);
  };
  const auto is_late = [&](int rounds) {
    return !can_cut(stages, micro_batches, rounds, 1, costs, limit_s, exceeds_memory);
  };
  if (!fits(micro_batches) || is_late(1)) return false;
  const int most = first_in(1, micro_batches + 1, is_late) - 1;
  int attempts = 0;
  for (int rounds = first_in(1, micro_batches, fits); rounds <= most;) {
    const int in_flight = rounded_up(micro_batches, rounds);
    if (++attempts > max_attempts ||
        can_cut(stages, micro_batches, rounds, in_flight, costs, limit_s, exceeds_memory))
      return true;
    if (in_flight == 1) return false;
    rounds = rounded_up(micro_batches, in_flight - 1);
  }
  return false;
}

/// Whether a pipeline of `stages` stages may finish its micro-batches within `limit_s`, however its layers
/// are cut and on whichever devices.
bool IterationBounds::pipeline_runs(int stages, int micro_batches, const PipelineCosts& costs,
                                    double limit_s) const {
  const double first_s = costs.first_sync_s + layer_times_.first_update_s;
  if (traits(model_.schedule).has_chunks)
    return micro_batches * slowest_device_s(stages) + first_s <= limit_s;
  if (stages == 1 && micro_batches * layer_times_.forward_backward.single_device_s + first_s > limit_s)
    return false;
  const bool forwards_first = traits(model_.schedule).forwards_first;
  bool exceeds_memory = false;
  const int rounds = model_.flush > 0 ? rounded_up(micro_batches, model_.flush) : 1;
  const int in_flight = forwards_first && !model_.sharding.gradients ? rounded_up(micro_batches, rounds) : 1;
  if (can_cut(stages, micro_batches, rounds, in_flight, costs, limit_s, exceeds_memory)) return true;
  // Flushes cost time, and reduce memory under gpipe.
  return exceeds_memory && model_.flush == 0 && forwards_first &&
         flushes_help(stages, micro_batches, costs, limit_s);
}

/// The most micro-batches that a pipeline may finish within `limit_s`; 0: none.
int IterationBounds::max_micro_batches(int stages, const PipelineCosts& costs, double limit_s) const {
  int low = 0, high = micro_batches_ + 1;
  while (low + 1 < high) {
    const int middle = (low + high) / 2;
    (pipeline_runs(stages, middle, costs, limit_s) ? low : high) = middle;
  }
  return low;
}

/// Whether all micro-batches may be finished within `limit_s` by `computing` of the pipelines.
bool IterationBounds::may_finish(int computing, int replicas, std::optional<int> stages,
                                 double limit_s) const {
  const std::vector<double> most =
      micro_batches_by_depth(costs_of(replicas), 1, max_stages(), stages, limit_s);
  const ConcaveMajorant majorant(most);
  return majorant.max_sum(computing, static_cast<int>(rates_.size())) >= micro_batches_ - 1e-6;
}

/// The sum of `stage_runs` over all stages, weighted by their rates, if compute is perfectly balanced over
/// all devices. Each layer's gradients are synchronized by `computing` different stages, at least.
double IterationBounds::balanced_any_depth_s(int computing, int replicas) const {
  const ScheduleTraits& schedule = traits(model_.schedule);
  const int count = static_cast<int>(rates_.size());
  const double rates = rate_sums_[at(std::min(count, computing * max_stages()))];
  const double first_s = first_sync_s_[at(replicas)] + layer_times_.first_update_s;
  const double synchronizing_rates = model_.by_degree.size() == 1 && tensor_ == 1
                                         ? rate_sums_.back() - rate_sums_[at(count - computing)]
                                         : computing * min_rate_;
  const bool overlaps = model_.problem.job.execution.overlap || model_.chunks > 1;
  const double sync =
      overlaps ? 0 : synchronizing_rates * syncs_[at(replicas)].seconds_per_byte * gradient_bytes_;
  if (!schedule.forwards_first) {
    const double work = micro_batches_ * balanced_.forward_backward;
    return std::max(work / rates + (schedule.splits_backward ? 0 : first_s), (work + sync) / rates);
  }
  const double work = (micro_batches_ - computing) * balanced_.forward_backward;
  return std::max(layer_times_.forward_backward.sum_s + work / rates + first_s,
                  layer_times_.forward.sum_s + (work + computing * balanced_.backward + sync) / rates);
}

/// The least time from `low` to `least` in which all micro-batches may be finished by `computing` of the
/// pipelines; `least` may be infinite. Less if it is stopped.
double IterationBounds::least_time_s(int computing, int replicas, std::optional<int> stages, double low,
                                     double least) const {
  try {
    double high = std::isfinite(least) ? least : std::max(2 * low, 1e-9);
    bool is_feasible = may_finish(computing, replicas, stages, high);
    if (std::isfinite(least) && !is_feasible) low = high;
    for (; !is_feasible && high > low && std::isfinite(high);
         is_feasible = may_finish(computing, replicas, stages, high))
      high *= 2;
    while (high - low > bisection_precision * high) {
      const double middle = (low + high) / 2;
      (may_finish(computing, replicas, stages, middle) ? high : low) = middle;
    }
  } catch (const WorkStopped&) {  // nothing less than `low` is possible
  }
  return low;
}

IterationBound IterationBounds::for_all_plans(std::optional<int> stages, std::optional<int> replicas) const {
  const int slots = static_cast<int>(rates_.size());
  const int most = std::min({slots / stages.value_or(1), micro_batches_, replicas.value_or(slots)});
  IterationBound bound{0, "no pipeline fits in memory", false};
  bool exceeds_memory = false;
  for (int depth = stages.value_or(1); depth <= stages.value_or(max_stages()) && !bound.fits; ++depth)
    bound.fits = may_fit(depth, 1) && (traits(model_.schedule).has_chunks || layers_ > max_cut_layers ||
                                       can_cut(depth, 1, 1, 1, {}, infinity, exceeds_memory));
  if (!bound.fits) return bound;
  double least = infinity;
  std::vector<double> least_s(at(most), infinity);  // by number of pipelines with micro-batches, minus 1
  for (int computing = 1; computing <= most; ++computing) {
    const int held = replicas.value_or(computing);
    if (held * state_ > memory_sums_.back() * (1 + bisection_precision)) continue;
    const double low = balanced_any_depth_s(computing, held);
    least_s[at(computing - 1)] =
        low < least && layers_ <= max_cut_layers ? least_time_s(computing, held, stages, low, least) : low;
    least = std::min(least, least_s[at(computing - 1)]);
  }
  if (!groups_.empty() && std::isfinite(least)) {
    try {
      least = std::max(least, groups_bound_s(least_s, stages, replicas));
    } catch (const WorkStopped&) {  // the bound without groups is valid too
    }
  }
  if (!std::isfinite(least)) return {0, "no pipeline fits in memory", false};
  bound.method =
      "pipelines of any depths on the fastest devices, then gradient synchronization over the "
      "best links";
  const double overhead = model_.problem.constants.iteration_overhead_s;
  bound.value = (least + overhead) * (1 - bisection_precision);
  if (overhead > 0) bound.method += ", plus the iteration overhead";
  return bound;
}

}  // namespace dtfm::cost
