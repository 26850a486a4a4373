#include "planner/cost/bounds/bound_inputs.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>

#include "core/base/error.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/gradient_pieces.hpp"
#include "planner/cost/bounds/sync_traffic_bound.hpp"
#include "planner/cost/iteration_time/gradient_sync_time.hpp"

namespace dtfm::cost {
namespace {

std::vector<int> known_devices(const IterationModel& model) {
  std::vector<int> devices;
  for (int device = 0; device < model.problem.topology->size(); ++device)
    if (std::any_of(model.by_degree.begin(), model.by_degree.end(),
                    [&](const StageCosts& costs) { return costs.unknown(device).empty(); }))
      devices.push_back(device);
  return devices;
}

/// Element n is the sum of the first n values.
std::vector<double> prefix_sums(const std::vector<double>& values) {
  std::vector<double> sums = {0};
  for (const double value : values) sums.push_back(sums.back() + value);
  return sums;
}

/// Seconds at the boundary where it is shortest. With a bandwidth threshold, a hop over a fast link is not
/// compressed.
double min_compression_s(const IterationModel& model) {
  if (model.problem.job.execution.compression.bandwidth_threshold || model.stages.layers() < 2) return 0;
  double least_s = infinity;
  for (int layer = 1; layer < model.stages.layers(); ++layer)
    least_s = std::min(least_s, model.stages.compression_s(layer));
  return least_s;
}

/// Lower bounds on the times of every layer on one kind of device: its own compute time and, with tensor
/// parallelism, the all-reduces over the best links, unless the compute time contains them. Other exchanges
/// are not counted. At most `replicas` share an optimizer step.
DeviceKindTimes kind_times(const IterationModel& model, const StageCosts& costs, int kind,
                           const MessageBounds& messages, int replicas) {
  DeviceKindTimes it;
  const bool reduces = costs.mesh().tensor > 1 && !costs.includes_all_reduces(kind);
  for (int layer = 0; layer < costs.layers(); ++layer) {
    const std::pair<int, int> one{layer, layer + 1};
    const int recomputed = costs.min_recomputed(one);
    const ComputeTime time = costs.compute(kind, one, recomputed);
    const ExchangedData there = costs.exchanged(Exchange::all_reduce, one, false, recomputed),
                        back = costs.exchanged(Exchange::all_reduce, one, true, recomputed);
    it.forward_s.push_back(time.forward_s + (reduces ? messages.min_s(there.messages, there.bytes) : 0));
    it.backward_s.push_back(time.backward_s + (reduces ? messages.min_s(back.messages, back.bytes) : 0));
  }
  it.first_update_s = (costs.compute(kind, {0, 1}).update_s - costs.compute(kind, {0, 0}).update_s) /
                      (model.sharding.optimizer ? replicas : 1);
  return it;
}

/// Upper bounds on a quantity (rate or memory) of every stage, largest first. A stage has no more than the
/// smallest value of its devices. So with one tensor degree t, the i-th best stage has no more than the (t ·
/// i)-th best device. With several degrees, it has no more than the i-th best device, and all stages together
/// have no more than the sum of the shares of all devices.
std::vector<double> max_of_stages(const IterationModel& model, std::vector<double> of_devices,
                                  const std::vector<double>& of_shares) {
  std::sort(of_devices.begin(), of_devices.end(), std::greater<>());
  const std::size_t min_degree = at(model.by_degree.front().devices());
  const bool is_one_degree = model.by_degree.size() == 1;
  double rest = std::accumulate(of_shares.begin(), of_shares.end(), 0.0);
  std::vector<double> maxima;
  for (std::size_t i = 1; i * min_degree <= of_devices.size(); ++i) {
    double of_stage = of_devices[is_one_degree ? i * min_degree - 1 : i - 1];
    if (!is_one_degree && rest < of_stage) of_stage = std::max(0.0, rest);
    if (std::isfinite(rest)) rest -= of_stage;
    maxima.push_back(of_stage);
  }
  return maxima;
}

/// Sets what depends on the times of layers. A kind of device counts as a separate kind at every tensor
/// degree.
void add_rates(BoundInputs& inputs, const MessageBounds& messages) {
  const IterationModel& model = inputs.model;
  std::vector<DeviceKindTimes> kinds;
  std::vector<std::vector<int>> kind_at;  // [degree][kind in StageCosts]; −1: times not known
  for (const StageCosts& costs : model.by_degree) {
    std::vector<int>& kind_of = kind_at.emplace_back(at(costs.kinds()), -1);
    for (const int device : inputs.devices) {
      if (!costs.unknown(device).empty()) continue;
      int& kind = kind_of[at(costs.kind_of(device))];
      if (kind < 0) {
        kind = static_cast<int>(kinds.size());
        kinds.push_back(kind_times(model, costs, costs.kind_of(device), messages, inputs.slots));
      }
      ++kinds[at(kind)].devices;
    }
  }
  inputs.layer_times = min_layer_times(kinds);
  inputs.balanced = balanced_work(kinds);
  std::vector<double> rates, shares;  // by device, at best: rate of its stage, and its own share of that
  double min_rate = infinity;
  for (const int device : inputs.devices) {
    double rate = 0, share = 0;
    for (std::size_t degree = 0; degree < kind_at.size(); ++degree) {
      const StageCosts& costs = model.by_degree[degree];
      const int kind = kind_at[degree][at(costs.kind_of(device))];
      if (kind < 0) continue;
      const double of_kind = inputs.balanced.rates[at(kind)];
      rate = std::max(rate, of_kind);
      share = std::max(share, of_kind / costs.devices());
      min_rate = std::min(min_rate, of_kind);
    }
    rates.push_back(rate);
    shares.push_back(share);
  }
  const std::vector<double> of_stages = max_of_stages(model, rates, shares);
  inputs.rates = {prefix_sums(of_stages), model.by_degree.size() == 1 ? of_stages.back() : min_rate};
}

/// `replicas`: the most that a layer can have, with which a device needs least.
MemoryBound memory_bound(const IterationModel& model, const std::vector<int>& devices, int replicas) {
  const StageCosts& costs = model.stages;
  // Every device needs this whatever it holds, so it is subtracted from its memory.
  const double process = model.problem.constants.process_memory_bytes;
  MemoryBound bound;
  bound.state = costs.needs({0, costs.layers()}, replicas).state;
  // Per device of a stage at the largest degree. A stage at the smallest degree holds the fewest copies of
  // what tensor parallelism replicates.
  const StageCosts& fewest = model.by_degree.front();
  bound.per_micro_batch =
      fewest.memory().least_kept_bytes({0, costs.layers()}) * model.smallest_degree_share();
  bound.state_before = {0};
  for (int layer = 0; layer < costs.layers(); ++layer) {
    // The increment for a stage that begins at the first layer, so that tied parameters count only once.
    const double state =
        costs.needs({0, layer + 1}, replicas).state - costs.needs({0, layer}, replicas).state;
    bound.state_before.push_back(bound.state_before.back() + state);
    const std::pair<int, int> one = {layer, layer + 1};
    const double working = fewest.needs(one, replicas, fewest.min_recomputed(one)).working - process;
    bound.largest_layer = std::max(bound.largest_layer, state + working * model.smallest_degree_share());
  }
  // Memory is counted per device of a stage at the largest degree, as the needs are. A stage at a smaller
  // degree has less, so the bound stays valid; each device contributes 1 ÷ the largest degree.
  std::vector<double> memory, shares;
  for (const int device : devices) {
    const int gpu = model.problem.topology->devices[at(device)].gpu;
    memory.push_back(gpu < 0 ? infinity
                             : std::max(0.0, model.problem.topology->gpus[at(gpu)].memory.value() - process));
    shares.push_back(memory.back() / costs.devices());
  }
  bound.sums = prefix_sums(max_of_stages(model, memory, shares));
  return bound;
}

/// Lower bound on the time from when all of `replicas` (at least two) devices have their gradients until the
/// last of them has the sum. The messages connect the devices, so they cross the most expensive pair of some
/// spanning tree, in both directions except in rings; all bounds are minima over the choice of devices.
/// Data that may use trees go to their root and back, and may not take the latency of any other pair.
double sync_s(GradientSync sync, bool may_use_trees, const MessageBounds& messages, int replicas,
              double bytes) {
  const auto message = [&](double part) {
    const double transfer_s = part * messages.per_byte.max_edge(replicas);
    return may_use_trees ? transfer_s
                         : std::max({messages.min_s(1, part), messages.fixed.max_edge(replicas), transfer_s});
  };
  const SyncPattern pattern = sync_pattern(sync);
  const double part = pattern.sends_all ? bytes : bytes / replicas,
               count = pattern.messages ? pattern.messages(replicas) : 2;
  double least_s = std::max(may_use_trees ? 2 * messages.min_s(1, 0) : count * messages.min_s(1, part),
                            (pattern.returns ? 2 : 1) * message(part));
  if (pattern.traffic == SyncPattern::Traffic::around_ring)  // each replica sends once per round
    least_s = std::max(least_s, count * part * messages.per_byte.max_edge(replicas));
  return least_s;
}

/// Least bytes of gradients, and of parameters that are synchronized in their place, of these layers. If only
/// some synchronizations are compressed: the smaller of both sizes, because a ratio may exceed 1. The second
/// half of those of a sharded optimizer sends parameters: the smaller of both halves. 0 (not known) if a
/// stage has several copies of a parameter, because one device may synchronize it with other pipelines for
/// all.
double min_gradient_bytes(const IterationModel& model, std::pair<int, int> layers) {
  const StageMesh& mesh = model.stages.mesh();
  if (mesh.copies(false) > 1 || mesh.copies(true) > 1) return 0;
  double least = model.stages.gradient_bytes(layers, true, true);
  if (model.problem.job.execution.compression.bandwidth_threshold)
    least = std::min(least, model.stages.gradient_bytes(layers, true, false));
  if (model.sharding.optimizer) least = std::min(least, model.stages.parameter_bytes(layers, true));
  return least;
}

/// Synchronization by number of pipelines with micro-batches. Pipelines without micro-batches may hold
/// further replicas, so a bound holds for any larger number of replicas, up to `max`, too.
std::vector<PipelineCosts> sync_bounds(const IterationModel& model, const std::vector<int>& devices,
                                       const MessageBounds& messages, int max, const StopFunction& stop) {
  std::vector<PipelineCosts> bounds(at(max + 1));
  if (model.sharding.gradients) return bounds;  // nearly all of it overlaps with computations
  const SyncTrafficBound traffic(model, devices, stop);
  const double first_bytes = min_gradient_bytes(model, {0, 1});
  // A device of a sharded optimizer decompresses only its part, and sends its parameters uncompressed.
  const bool all_compress =
      !model.problem.job.execution.compression.bandwidth_threshold && !model.sharding.optimizer;
  const double compression_s = all_compress ? 2 * model.stages.gradient_compression_s(first_bytes) : 0;
  // The devices of two hosts may send a message together.
  const int max_parts = traits(model.sync).uses_channels ? messages.max_parts : 1;
  const SyncPattern::Traffic pattern = sync_pattern(model.sync).traffic;
  const bool may_use_trees =
      traits(model.sync).may_use_trees && synchronizes_pieces(model.problem.job.execution, model.sync);
  double first_s = infinity;
  for (int replicas = max; replicas > 1; --replicas) {
    PipelineCosts& costs = bounds[at(replicas)];
    first_s =
        std::min(first_s, sync_s(model.sync, may_use_trees, messages, replicas, first_bytes) + compression_s);
    costs.first_sync_s = first_s;
    costs.sync.fixed_s = messages.min_s(1, 0);
    if (pattern == SyncPattern::Traffic::to_each)
      costs.sync.seconds_per_byte = 2 * traffic.to_each_s(replicas - 1) / replicas;
    else if (pattern == SyncPattern::Traffic::around_ring)
      costs.sync.seconds_per_byte = 2 * traffic.total_s() * (replicas - 1) / replicas / max_parts;
    else
      costs.sync.seconds_per_byte = traffic.total_s() / max_parts;
  }
  return bounds;
}

}  // namespace

BoundInputs bound_inputs(const IterationModel& model, StopFunction stop) {
  const std::vector<int> devices = known_devices(model);
  const int degree = model.by_degree.front().devices(), layers = model.stages.layers();
  const int slots = static_cast<int>(devices.size()) / degree;
  if (slots == 0) throw Error("", "too few devices with known layer times for a single stage");
  const MessageBounds messages = message_bounds(model, devices, stop);
  const int max_stages = model.sharding.gradients ? 1 : std::min(slots, layers / model.chunks);
  std::vector<double> gradients;
  for (int layer = 0; layer < layers; ++layer)
    gradients.push_back(min_gradient_bytes(model, {layer, layer + 1}));
  BoundInputs inputs{model,
                     stop,
                     devices,
                     layers,
                     micro_batch_count(model.problem.job),
                     slots,
                     max_stages,
                     hop_bounds(model, devices, stop),
                     min_compression_s(model),
                     {},
                     {},
                     {},
                     memory_bound(model, devices, slots),
                     prefix_sums(gradients),
                     sync_bounds(model, devices, messages, slots, stop)};
  add_rates(inputs, messages);
  return inputs;
}

}  // namespace dtfm::cost
