#include "planner/cost/iteration_time/layer_split_costs.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "planner/cost/iteration_time/fewest_recomputed.hpp"

namespace dtfm::cost {
namespace {

template <class T>
void add_once(std::vector<T>& list, const T& value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

void take_larger(ResourceTime& time, const ResourceTime& other) {
  time.sum = std::max(time.sum, other.sum);
  time.forward = std::max(time.forward, other.forward);
  time.backward = std::max(time.backward, other.backward);
}

}  // namespace

LayerSplitCosts::LayerSplitCosts(const IterationModel& model, const std::vector<StageChain>& pipelines,
                                 int replicas)
    : model_(model),
      schedule_(model.schedule),
      chunks_(model.chunks),
      replicas_(replicas),
      stage_resources_(pipelines.front().devices.size()),
      limits_(stage_resources_.size()),
      held_(model.schedule, model.chunks),
      hop_kinds_(stage_resources_.size()),
      hops_(stage_resources_.size() * at(model.stages.layers() + 1)),
      needs_(model.by_degree.size(), std::vector<std::vector<StageNeeds>>(at(model.stages.layers() + 1))),
      needs_of_none_(needs_) {
  Weights most;
  for (const StageChain& chain : pipelines) {
    DTFM_ASSERT(chain.devices.size() == stage_resources_.size());
    const int m = chain.micro_batches;
    Weights weights;
    if (m > 0) weights.rounds = flush_count(model.flush, m);
    weights.steady = m - weights.rounds;
    most = {std::max(most.rounds, weights.rounds), std::max(most.steady, weights.steady)};
    if (m > 0 && traits(schedule_).alternates && !traits(schedule_).is_blocking &&
        model.messaging == Messaging::ahead)
      mean_weight_ = std::max(mean_weight_, weights.steady / weights.rounds);
    for (int stage = 0; stage < stages(); ++stage) {
      const std::vector<int>& devices = chain.devices[at(stage)];
      add_stage(stage, weights, chain);
      add_limit(model, stage, m, devices);
      if (stage + 1 < stages()) add_hop(stage, weights, devices, chain.devices[at(stage + 1)]);
    }
  }
  // At the smallest degree, where a device has the largest part of a message.
  double compression_forward_s = 0;
  for (int layer = 1; layer < layers(); ++layer)
    compression_forward_s = std::max(compression_forward_s, model.by_degree.front().compression_s(layer));
  compression_slack_ =
      4 * compression_forward_s * (most.rounds + most.steady);  // both boundaries, forward and backward
}

std::size_t LayerSplitCosts::at_hop(int stage, int end) const {
  return at(stage) * at(layers() + 1) + at(end);
}

void LayerSplitCosts::add_stage(int stage, const Weights& weights, const StageChain& chain) {
  const std::vector<int>& devices = chain.devices[at(stage)];
  StageResource resource{weights, devices.size(), {}, {}, {}, {}};
  using Direction = IterationModel::Direction;
  if (stage > 0) {
    const std::vector<int>& other = chain.devices[at(stage - 1)];
    resource.before = {model_.compressed_share(devices, other, Direction::received),
                       model_.compressed_share(devices, other, Direction::sent)};
  }
  if (stage + 1 < stages()) {
    const std::vector<int>& other = chain.devices[at(stage + 1)];
    resource.behind = {model_.compressed_share(devices, other, Direction::sent),
                       model_.compressed_share(devices, other, Direction::received)};
  }
  for (const int device : devices) add_once(resource.kinds, model_.stages.kind_of(device));
  for (const Exchange kind : exchange_kinds)
    for (const ExchangeLimit& limit : exchange_limits(model_, devices, kind))
      add_once(resource.limits[static_cast<std::size_t>(kind)], limit);
  add_once(stage_resources_[at(stage)], resource);
}

void LayerSplitCosts::add_limit(const IterationModel& model, int stage, int micro_batches,
                                const std::vector<int>& devices) {
  const InFlightMicroBatches& held =
      held_.of(stages(), stage, model.micro_batches_per_round(model.flush, micro_batches));
  for (const int device : devices) {
    const int gpu = model.problem.topology->devices[at(device)].gpu;
    if (gpu < 0) continue;
    const double capacity = model.problem.topology->gpus[at(gpu)].memory.value();
    std::vector<Limit>& limits = limits_[at(stage)];
    const auto same = std::find_if(limits.begin(), limits.end(), [&](const Limit& limit) {
      return limit.degree == devices.size() && limit.held == held;
    });
    if (same == limits.end())
      limits.push_back({devices.size(), held, capacity});
    else
      same->capacity = std::min(same->capacity, capacity);
  }
}

void LayerSplitCosts::add_hop(int stage, const Weights& weights, const std::vector<int>& from,
                              const std::vector<int>& to) {
  const int parts = parts_between(from, to);
  HopKind kind{weights, parts, {}};
  const auto& all = model_.problem.topology->devices;
  for (int part = 0; part < parts; ++part) {
    const int sender = device_of_part(from, part, parts), receiver = device_of_part(to, part, parts);
    const bool is_inside = all[at(sender)].host == all[at(receiver)].host;
    add_once(kind.ends, {model_.network.kind(sender), model_.network.kind(receiver), is_inside ? 1 : 0});
  }
  std::vector<HopKind>& known = hop_kinds_[at(stage)];
  if (std::find(known.begin(), known.end(), kind) != known.end()) return;
  known.push_back(std::move(kind));
  for (int end = 1; end < layers(); ++end) {
    double there = 0, back = 0, latency = 0, latency_back = 0;
    for (int part = 0; part < parts; ++part) {
      const int sender = device_of_part(from, part, parts), receiver = device_of_part(to, part, parts);
      const MessageCost forward = model_.network.message(sender, receiver),
                        backward = model_.network.message(receiver, sender);
      there = std::max(there, forward.occupancy_s(model_.boundary_bytes(sender, receiver, parts, end)));
      back = std::max(back, backward.occupancy_s(model_.boundary_bytes(receiver, sender, parts, end)));
      latency = std::max(latency, forward.latency_s);
      latency_back = std::max(latency_back, backward.latency_s);
    }
    ResourceTime hop = resource_time(weights, there, back);
    // In contrast to computations, messages of both directions are sent concurrently.
    if (!traits(schedule_).forwards_first) hop.forward = weights.steady * std::max(there, back);
    hop.sum += weights.rounds * (latency + latency_back);
    take_larger(hops_[at_hop(stage, end)], hop);
  }
}

ResourceTime LayerSplitCosts::resource_time(const Weights& weights, double forward_s,
                                            double backward_s) const {
  const double sum = weights.rounds * (forward_s + backward_s);
  if (traits(schedule_).forwards_first) return {sum, weights.steady * forward_s, weights.steady * backward_s};
  return {sum, weights.steady * (forward_s + backward_s), 0};
}

ResourceTime LayerSplitCosts::stage(int stage, std::pair<int, int> layers) const {
  ResourceTime most;
  const int of_chunk = recomputed_of(stage, layers);
  for (const StageResource& resource : stage_resources_[at(stage)]) {
    const StageCosts& costs = model_.stages_of(resource.degree);
    const double before = stage > 0 ? costs.compression_s(layers.first) : 0,
                 behind = stage + 1 < stages() ? costs.compression_s(layers.second) : 0;
    const int recomputed = std::min(layers.second - layers.first, of_chunk * chunks_);
    double forward = 0, backward = 0, hidden = 0, hidden_back = 0;
    for (const int kind : resource.kinds) {
      const ComputeTime time = costs.compute(kind, layers, recomputed);
      forward = std::max(forward, time.forward_s);
      backward = std::max(backward, time.backward_s);
      hidden = std::max(hidden, time.hidden_forward_s);
      hidden_back = std::max(hidden_back, time.hidden_backward_s);
    }
    double exchange = 0, exchange_back = 0;
    for (const Exchange kind : exchange_kinds) {
      const ExchangedData there = costs.exchanged(kind, layers, false, recomputed),
                          back = costs.exchanged(kind, layers, true, recomputed);
      double slowest = 0, slowest_back = 0;
      for (const ExchangeLimit& limit : resource.limits[static_cast<std::size_t>(kind)]) {
        slowest = std::max(slowest, limit.seconds(there));
        slowest_back = std::max(slowest_back, limit.seconds(back));
      }
      const bool overlaps = kind == Exchange::keys_values;
      exchange += std::max(0.0, slowest - (overlaps ? hidden : 0));
      exchange_back += std::max(0.0, slowest_back - (overlaps ? hidden_back : 0));
    }
    const double compression_forward_s = resource.before.forward * before + resource.behind.forward * behind,
                 compression_backward_s =
                     resource.before.backward * before + resource.behind.backward * behind;
    take_larger(most, resource_time(resource.weights, forward + compression_forward_s + exchange,
                                    backward + compression_backward_s + exchange_back));
  }
  return most;
}

void LayerSplitCosts::append(ResourceTime& time, const ResourceTime& own, int stage, int end) const {
  time.sum += own.sum;
  time.forward = std::max({time.forward, own.forward, time.sum * mean_weight_ / (stage + 1)});
  time.backward = std::max(time.backward, own.backward);
  const ResourceTime& behind = hops_[at_hop(stage, end)];
  time.sum += behind.sum;
  time.forward = std::max(time.forward, behind.forward);
  time.backward = std::max(time.backward, behind.backward);
}

std::vector<std::pair<int, int>> LayerSplitCosts::chunks_of(std::pair<int, int> layers) const {
  std::vector<std::pair<int, int>> chunks;
  for (int chunk = 0; chunk < chunks_; ++chunk) {
    const auto [begin, end] = even_split(layers.second - layers.first, chunks_, chunk);
    chunks.emplace_back(layers.first + begin, layers.first + end);
  }
  return chunks;
}

std::vector<StageNeeds> LayerSplitCosts::needs_of(const StageCosts& costs, std::pair<int, int> layers,
                                                  int recomputed) const {
  std::vector<StageNeeds> needs;
  for (const auto& chunk : chunks_of(layers))
    needs.push_back(costs.needs(chunk, replicas_, std::min(recomputed, chunk.second - chunk.first)));
  return needs;
}

int LayerSplitCosts::recomputed_of(int stage, std::pair<int, int> layers) const {
  const ExecutionConfig& execution = model_.problem.job.execution;
  if (!traits(execution.recomputation).is_per_stage())
    return execution.recomputed_layers(layers.second - layers.first);
  int most = 0;
  const std::vector<std::pair<int, int>> chunks = chunks_of(layers);
  for (const Limit& limit : limits_[at(stage)])
    most = std::max(most, fewest_recomputed(model_.stages_of(limit.degree), chunks, replicas_, limit.held,
                                            limit.capacity));
  return most;
}

double LayerSplitCosts::memory_utilization(int stage, std::pair<int, int> layers) {
  if (limits_[at(stage)].empty()) return 0;
  if (row_ != layers.first) {
    row_ = layers.first;
    for (NeedsByDegree* all : {&needs_, &needs_of_none_})
      for (auto& of_degree : *all)
        for (auto& of_end : of_degree) of_end.clear();
  }
  const ExecutionConfig& execution = model_.problem.job.execution;
  const int recomputed = execution.recomputed_layers(layers.second - layers.first);
  double most = 0;
  for (const Limit& limit : limits_[at(stage)]) {
    const auto utilization = [&](NeedsByDegree& all, int count) {
      std::vector<StageNeeds>& needs = all[model_.number_of_degree[limit.degree]][at(layers.second)];
      if (needs.empty()) needs = needs_of(model_.stages_of(limit.degree), layers, count);
      return limit.held.max_bytes(needs) / limit.capacity;
    };
    double share = utilization(needs_, recomputed);
    if (share > 1 && traits(execution.recomputation).is_per_stage()) {
      const StageCosts& costs = model_.stages_of(limit.degree);
      // As in fewest_recomputed: if recomputing saves, it fits with some number if it does with none or all.
      const double other =
          costs.memory().recomputing_saves()
              ? utilization(needs_of_none_, 0)
              : limit.held.max_bytes(needs_of(costs, layers, recomputed_of(stage, layers))) / limit.capacity;
      if (other <= 1 || traits(execution.recomputation).offloads) share = std::min(share, other);
    }
    most = std::max(most, share);
  }
  return most;
}

}  // namespace dtfm::cost
