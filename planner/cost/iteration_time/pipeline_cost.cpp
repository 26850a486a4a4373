#include "planner/cost/iteration_time/pipeline_cost.hpp"

#include <algorithm>
#include <map>
#include <span>

#include "core/cluster/host_channels.hpp"
#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "core/plan/shards.hpp"
#include "core/plan/virtual_stages.hpp"
#include "planner/cost/iteration_time/fewest_recomputed.hpp"
#include "planner/cost/iteration_time/warm_up.hpp"

namespace dtfm::cost {
namespace {

/// One direction of a hop: its messages consist of concurrent parts (core/plan/shards.hpp).
struct HopMessages {
  const IterationModel& model;
  const std::vector<int>&from, &to;
  int layer;

  template <class Visit>
  void for_each_part(const Visit& visit) const {
    const int parts = parts_between(from, to);
    for (int part = 0; part < parts; ++part) {
      const int sender = device_of_part(from, part, parts), receiver = device_of_part(to, part, parts);
      if (sender != receiver) visit(sender, receiver, model.boundary_bytes(sender, receiver, parts, layer));
    }
  }

  double egress_usd() const {
    double usd = 0;
    for_each_part([&](int sender, int receiver, double bytes) {
      usd += bytes * model.network.usd_per_byte(sender, receiver);
    });
    return usd;
  }

  HopTime time() const {
    HopTime slowest;
    for_each_part([&](int sender, int receiver, double bytes) {
      const MessageCost cost = model.network.message(sender, receiver);
      slowest.occupancy_s = std::max(slowest.occupancy_s, cost.occupancy_s(bytes));
      slowest.latency_s = std::max(slowest.latency_s, cost.latency_s);
    });
    return slowest;
  }

  /// A capacity that several parts cross carries them all.
  void add_link_demands(int hop, bool is_forward, std::vector<LinkDemand>& demands) const {
    const auto first = static_cast<std::ptrdiff_t>(demands.size());
    for_each_part([&](int sender, int receiver, double bytes) {
      const double overhead_s = model.network.message(sender, receiver).overhead_s;
      for (const int id : model.network.shared(sender, receiver)) {
        auto it = std::find_if(demands.begin() + first, demands.end(),
                               [&](const LinkDemand& other) { return other.capacity == id; });
        if (it == demands.end()) it = demands.insert(it, {id, hop, is_forward, 0, overhead_s});
        it->bytes += bytes;
      }
    });
  }
};

/// Micro-batches that a stage holds at once, if that is left to plans and the plan says it.
std::optional<int> planned_in_flight(const ScheduleTraits& schedule, const Stage& stage) {
  if (schedule.has_planned_warm_up && stage.warm_up) return *stage.warm_up + 1;
  if (schedule.has_planned_passes && !stage.passes.empty()) return max_in_flight(stage.passes);
  return std::nullopt;
}

/// By virtual stage. If the plan leaves the number to the planner: the fewest with which the devices have
/// enough memory.
void add_recomputed(const IterationModel& model, const Pipeline& pipeline, int replicas, int flush,
                    InFlightByDevice& in_flight, PipelineCost& cost) {
  const std::size_t stages = pipeline.stages.size();
  const bool is_chosen = traits(model.problem.job.execution.recomputation).is_per_stage();
  cost.work.recomputed.resize(cost.layers.size());
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const Stage& own = pipeline.stages[stage];
    const StageCosts& costs = model.stages_of(own.devices.size());
    std::optional<int> count;
    if (is_chosen) count = own.recompute_layers;
    if (is_chosen && !count) {
      std::vector<std::pair<int, int>> chunks;
      for (std::size_t i = stage; i < cost.layers.size(); i += stages) chunks.push_back(cost.layers[i]);
      const int between = model.micro_batches_per_round(flush, pipeline.micro_batches);
      count = fewest_recomputed(costs, chunks, replicas,
                                in_flight.of(static_cast<int>(stages), static_cast<int>(stage), between,
                                             planned_in_flight(traits(model.schedule), own)),
                                least_memory(model.problem.topology, own.devices));
    }
    for (std::size_t i = stage; i < cost.layers.size(); i += stages)
      cost.work.recomputed[i] = count ? std::min(*count, cost.layers[i].second - cost.layers[i].first)
                                      : costs.recomputed(cost.layers[i]);
  }
}

void add_stage_times(const IterationModel& model, const Pipeline& pipeline, PipelineCost& cost) {
  PipelineWork& work = cost.work;
  const double overhead_s = model.problem.constants.micro_batch_overhead_s;
  for (std::size_t i = 0; i < cost.layers.size(); ++i) {
    const std::vector<int>& devices = devices_of(pipeline, i);
    const int recomputed = cost.work.recomputed[i];
    const ComputeTime time = slowest_compute(model, devices, cost.layers[i], recomputed);
    work.forward_s.push_back(time.forward_s + overhead_s +
                             exchange_s(model, devices, cost.layers[i], false, recomputed));
    work.backward_s.push_back(time.backward_s + overhead_s +
                              exchange_s(model, devices, cost.layers[i], true, recomputed));
    work.weight_gradient_s.push_back(time.weight_gradient_s);
  }
}

/// Devices compress and decompress activations, and their gradients, as part of their computation.
void add_compression(const IterationModel& model, const Pipeline& pipeline, PipelineCost& cost) {
  using Direction = IterationModel::Direction;
  for (std::size_t i = 0; i + 1 < cost.layers.size(); ++i) {
    const std::vector<int>&here = devices_of(pipeline, i), &next = devices_of(pipeline, i + 1);
    const auto add = [&](std::size_t stage, const std::vector<int>& own, const std::vector<int>& other,
                         Direction activations, Direction gradients) {
      const double seconds = model.stages_of(own.size()).compression_s(cost.layers[i].second);
      if (seconds == 0) return;
      cost.work.forward_s[stage] += seconds * model.compressed_share(own, other, activations);
      cost.work.backward_s[stage] += seconds * model.compressed_share(own, other, gradients);
    };
    add(i, here, next, Direction::sent, Direction::received);
    add(i + 1, next, here, Direction::received, Direction::sent);
  }
}

void add_hops(const IterationModel& model, const Pipeline& pipeline, PipelineCost& cost) {
  double usd = 0;  // per micro-batch
  for (std::size_t i = 0; i + 1 < cost.layers.size(); ++i) {
    const std::vector<int>&here = devices_of(pipeline, i), &next = devices_of(pipeline, i + 1);
    const HopMessages there{model, here, next, cost.layers[i].second},
        back{model, next, here, cost.layers[i].second};
    cost.work.forward_hops.push_back(there.time());
    cost.work.backward_hops.push_back(back.time());
    if (model.network.shared_count() > 0) {
      there.add_link_demands(static_cast<int>(i), true, cost.link_demands);
      back.add_link_demands(static_cast<int>(i), false, cost.link_demands);
    }
    if (model.network.is_priced()) usd += there.egress_usd() + back.egress_usd();
  }
  cost.egress_usd += usd * pipeline.micro_batches;
}

using Group = std::span<const int>;

/// The groups of `size` devices of a stage that follow one another; none if they have only one.
std::vector<Group> groups_of(const std::vector<int>& devices, int size) {
  std::vector<Group> groups;
  for (std::size_t first = 0; size > 1 && first < devices.size(); first += at(size))
    groups.push_back(Group(devices).subspan(first, at(size)));
  return groups;
}

/// The tensor-parallel groups whose compute times do not contain their all-reduces.
std::vector<Group> reducing_groups(const IterationModel& model, const std::vector<int>& devices) {
  const StageCosts& costs = model.stages_of(devices.size());
  const auto& all = model.problem.topology->devices;
  std::vector<Group> groups = groups_of(devices, costs.mesh().tensor);
  std::erase_if(groups, [&](const Group& group) {
    return std::all_of(group.begin(), group.end(), [&](int device) {
      return costs.includes_all_reduces(costs.kind_of(device)) &&
             all[at(device)].host == all[at(group.front())].host;
    });
  });
  return groups;
}

/// Visits senders and receivers of expert all-to-alls. `within_hosts`: only the second step of hierarchical
/// dispatches; otherwise flat dispatches, and the step between hosts. Calls `visit` with the size of a
/// message ÷ its size in a flat dispatch.
template <class Visit>
void for_each_token_pair(const IterationModel& model, const std::vector<int>& devices, bool within_hosts,
                         const Visit& visit) {
  const StageCosts& costs = model.stages_of(devices.size());
  const int expert = costs.mesh().expert;
  for (const Group& group : groups_of(devices, expert)) {
    const int hosts = dispatching_hosts(*model.problem.topology, costs.job().execution, group);
    if (within_hosts && hosts == 1) continue;
    const std::size_t on_host = group.size() / at(hosts);
    double size = 1;
    if (costs.job().execution.expert_dispatch == ExpertDispatch::hierarchical) {
      const bool to_hosts = hosts > 1 && !within_hosts;
      size = expert * costs.bytes().vectors_per_visit(to_hosts ? hosts : expert) * (within_hosts ? hosts : 1);
    }
    for (std::size_t i = 0; i < group.size(); ++i)
      for (std::size_t k = 0; k < group.size(); ++k)
        if (i != k &&
            (hosts == 1 || (within_hosts ? i / on_host == k / on_host : i % on_host == k % on_host)))
          visit(group[i], group[k], size);
  }
}

/// Visits the sender, the receiver and the relative size of the messages of every exchange but all-reduces.
template <class Visit>
void for_each_pair(const IterationModel& model, const std::vector<int>& devices, Exchange kind,
                   const Visit& visit) {
  if (kind != Exchange::keys_values)
    return for_each_token_pair(model, devices, kind == Exchange::host_all_to_all, visit);
  const StageCosts& costs = model.stages_of(devices.size());
  const std::size_t tensor = at(costs.mesh().tensor);
  for (const Group& part :
       groups_of(devices, costs.mesh().context > 1 ? costs.mesh().tensor * costs.mesh().context : 1))
    for (std::size_t i = 0; i < part.size(); ++i)
      for (std::size_t step = tensor; step < (costs.bytes().divides_heads() ? part.size() : 2 * tensor);
           step += tensor)
        visit(part[i], part[(i + step) % part.size()], 1.0);
}

/// Egress of the exchanges inside stages.
void add_exchange_egress(const IterationModel& model, const Pipeline& pipeline, PipelineCost& cost) {
  if (!model.network.is_priced()) return;
  double usd = 0;  // per micro-batch
  for (std::size_t i = 0; i < cost.layers.size(); ++i) {
    const std::vector<int>& devices = devices_of(pipeline, i);
    const StageCosts& costs = model.stages_of(devices.size());
    const auto bytes_of = [&](Exchange kind) {
      return costs.exchanged(kind, cost.layers[i], false, cost.work.recomputed[i]).bytes +
             costs.exchanged(kind, cost.layers[i], true, cost.work.recomputed[i]).bytes;
    };
    const double reduced = bytes_of(Exchange::all_reduce);
    for (const Group& group : reducing_groups(model, devices)) {
      const HostChannels channels(model.problem.topology, group);
      for (std::size_t rank = 0; rank < group.size(); ++rank) {
        const auto pairs = channels.next_in_ring(rank);
        for (const auto& [from, to] : pairs)
          usd += reduced / static_cast<double>(pairs.size()) * model.network.usd_per_byte(from, to);
      }
    }
    for (const Exchange kind :
         {Exchange::keys_values, Exchange::all_to_all})  // host_all_to_all never leaves a host
      if (const double bytes = bytes_of(kind); bytes > 0)
        for_each_pair(model, devices, kind, [&](int from, int to, double size) {
          usd += bytes * size * model.network.usd_per_byte(from, to);
        });
  }
  cost.egress_usd += usd * pipeline.micro_batches;
}

/// Completes every link demand with what it has in common with the others of the same capacity.
void add_link_totals(Schedule schedule, PipelineCost& cost) {
  if (cost.link_demands.empty()) return;
  const PipelineWork& work = cost.work;
  const std::size_t stages = work.forward_s.size();
  std::vector<double> begins(2 * stages), ends(2 * stages);  // of hops; backward hops after forward ones
  double now = 0;
  const auto pass = [&](std::size_t number, const HopTime& hop) {
    begins[number] = now;
    now += hop.occupancy_s;
    ends[number] = now;
    now += hop.latency_s;
  };
  for (std::size_t i = 0; i < stages; ++i) {
    now += work.forward_s[i];
    if (i + 1 < stages) pass(i, work.forward_hops[i]);
  }
  const double forward_s = now;
  for (std::size_t i = stages; i-- > 0;) {
    now += work.backward_s[i];
    if (traits(schedule).splits_backward) now -= work.weight_gradient_s[i];
    if (i > 0) pass(stages + i - 1, work.backward_hops[i - 1]);
  }
  const bool has_phases = traits(schedule).forwards_first;
  for (LinkDemand& it : cost.link_demands) {
    it.before_s = it.after_s = infinity;
    for (const LinkDemand& other : cost.link_demands) {
      if (other.capacity != it.capacity) continue;
      it.pipeline_bytes += other.bytes;
      it.is_crossed_repeatedly = it.is_crossed_repeatedly || &other != &it;
      if (has_phases && other.is_forward != it.is_forward) continue;
      const std::size_t number = at(other.hop) + (other.is_forward ? 0 : stages);
      const double phase_begin_s = has_phases && !it.is_forward ? forward_s : 0,
                   phase_end_s = has_phases && it.is_forward ? forward_s : now;
      it.before_s = std::min(it.before_s, begins[number] - phase_begin_s);
      it.after_s = std::min(it.after_s, phase_end_s - ends[number]);
    }
  }
}

/// Contention makes the closed form of gpipe longer. The other schedules are extrapolated under contention,
/// which may be shorter than without, so only what holds for every stage counts: its first micro-batch
/// reaches it, it computes all of its work, and the last gradients return to the first stage.
EarliestTimes earliest_times(const IterationModel& model, const PipelineCost& cost) {
  const PipelineWork& work = cost.work;
  const std::size_t stages = work.forward_s.size(), devices = stages / at(work.chunks);
  const ScheduleTraits& schedule = traits(model.schedule);
  EarliestTimes earliest{0, infinity};
  if (model.network.shared_count() == 0 || (schedule.forwards_first && model.messaging == Messaging::ahead)) {
    earliest.end_s = cost.time.end_s;
    for (std::size_t stage = 0; stage < stages; ++stage)
      earliest.first_gradients_s =
          std::min(earliest.first_gradients_s, cost.time.backward_s[stage] - work.backward_s[stage]);
    return earliest;
  }
  if (work.micro_batches == 0) return {};
  // Otherwise the last operation of a device may be one that no other device waits for.
  const bool ends_with_backward = work.chunks == 1 && !schedule.splits_backward;
  double arrives_s = 0, returns_s = 0;
  for (std::size_t device = 0; device < devices; ++device) {
    double computing_s = 0;  // per micro-batch, over all chunks
    for (std::size_t stage = device; stage < stages; stage += devices)
      computing_s += work.forward_s[stage] + work.backward_s[stage];
    const double done_s = arrives_s + work.micro_batches * computing_s;
    earliest.end_s = std::max(earliest.end_s, done_s + (ends_with_backward ? returns_s : 0));
    earliest.first_gradients_s =
        std::min(earliest.first_gradients_s, work.chunks == 1 ? done_s - work.backward_s[device] : 0);
    if (device + 1 == stages) break;
    const HopTime &there = work.forward_hops[device], &back = work.backward_hops[device];
    arrives_s += work.forward_s[device] + there.occupancy_s + there.latency_s;
    returns_s += work.backward_s[device] + back.occupancy_s + back.latency_s;
  }
  return earliest;
}

/// Optimizer step of the slowest device of a stage, over all chunks of the device. Replicas of a sharded
/// optimizer share it.
void add_updates(const IterationModel& model, const Pipeline& pipeline, int replicas, PipelineCost& cost) {
  const std::size_t stages = pipeline.stages.size();
  const double share = model.sharding.optimizer ? 1.0 / replicas : 1;
  cost.update_s.resize(cost.layers.size());
  for (std::size_t stage = 0; stage < stages; ++stage) {
    double seconds = 0;
    for (std::size_t i = stage; i < cost.layers.size(); i += stages)
      seconds +=
          slowest_compute(model, pipeline.stages[stage].devices, cost.layers[i], cost.work.recomputed[i])
              .update_s;
    for (std::size_t i = stage; i < cost.layers.size(); i += stages) cost.update_s[i] = seconds * share;
  }
}

/// Memory of a device: state of all its chunks, and activations of micro-batches in flight.
void add_memory(const IterationModel& model, const Pipeline& pipeline, int replicas, int flush,
                InFlightByDevice& in_flight, PipelineCost& cost) {
  const Topology& topology = model.problem.topology;
  const int stages = static_cast<int>(pipeline.stages.size());
  const int between = model.micro_batches_per_round(flush, pipeline.micro_batches);
  std::vector<StageNeeds> chunks(at(model.chunks));
  for (int stage = 0; stage < stages; ++stage) {
    const std::vector<int>& devices = pipeline.stages[at(stage)].devices;
    for (int chunk = 0; chunk < model.chunks; ++chunk)
      chunks[at(chunk)] = model.stages_of(devices.size())
                              .needs(cost.layers[at(stage + chunk * stages)], replicas,
                                     cost.work.recomputed[at(stage + chunk * stages)]);
    const double bytes =
        in_flight
            .of(stages, stage, between, planned_in_flight(traits(model.schedule), pipeline.stages[at(stage)]))
            .max_bytes(chunks);
    cost.memory_bytes.push_back(bytes);
    for (const int device : devices)
      if (const int gpu = topology.devices[at(device)].gpu; gpu >= 0)
        cost.deficit_bytes += std::max(0.0, bytes - topology.gpus[at(gpu)].memory.value());
  }
}

/// What the plan says about the order of its stages, and how long warm-ups may be within the memory of the
/// devices.
void add_planned_orders(const IterationModel& model, const Pipeline& pipeline, int replicas,
                        PipelineCost& cost) {
  const ScheduleTraits& schedule = traits(model.schedule);
  if (!schedule.has_planned_warm_up && !schedule.has_planned_passes) return;
  PipelineWork& work = cost.work;
  const Topology& topology = model.problem.topology;
  for (std::size_t stage = 0; stage < pipeline.stages.size(); ++stage) {
    const std::vector<int>& devices = pipeline.stages[stage].devices;
    if (const auto warm_up = pipeline.stages[stage].warm_up; warm_up && schedule.has_planned_warm_up)
      work.warm_ups.push_back(*warm_up);
    if (const PassOrder& passes = pipeline.stages[stage].passes;
        !passes.empty() && schedule.has_planned_passes)
      work.passes.push_back(passes);
    const StageNeeds needs =
        model.stages_of(devices.size()).needs(cost.layers[stage], replicas, cost.work.recomputed[stage]);
    double most = work.micro_batches;
    for (const int device : devices)
      if (const int gpu = topology.devices[at(device)].gpu; gpu >= 0 && needs.per_micro_batch > 0)
        most = std::min(most, (topology.gpus[at(gpu)].memory.value() - needs.state - needs.working) /
                                  needs.per_micro_batch);
    work.max_warm_ups.push_back(static_cast<int>(std::max(0.0, most - 1)));
  }
  if (work.warm_ups.size() < pipeline.stages.size()) work.warm_ups.clear();
}

}  // namespace

ComputeTime slowest_compute(const IterationModel& model, const std::vector<int>& devices,
                            std::pair<int, int> layers, int recomputed) {
  const StageCosts& costs = model.stages_of(devices.size());
  ComputeTime slowest;
  int known = no_index;  // kind of the device before
  for (const int device : devices) {
    if (costs.kind_of(device) == known) continue;
    known = costs.kind_of(device);
    const ComputeTime time = costs.compute(known, layers, recomputed);
    slowest.forward_s = std::max(slowest.forward_s, time.forward_s);
    slowest.backward_s = std::max(slowest.backward_s, time.backward_s);
    slowest.weight_gradient_s = std::max(slowest.weight_gradient_s, time.weight_gradient_s);
    slowest.update_s = std::max(slowest.update_s, time.update_s);
    slowest.hidden_forward_s = std::max(slowest.hidden_forward_s, time.hidden_forward_s);
    slowest.hidden_backward_s = std::max(slowest.hidden_backward_s, time.hidden_backward_s);
  }
  return slowest;
}

namespace {

/// Those of a single group do not share a capacity with messages of others.
std::vector<ExchangeLimit> all_reduce_limits(const IterationModel& model, const std::vector<int>& devices) {
  std::vector<ExchangeLimit> limits;
  const std::vector<Group> groups = reducing_groups(model, devices);
  std::map<int, ExchangeLimit> shared;  // by capacity
  for (const Group& group : groups) {
    const HostChannels channels(model.problem.topology, group);
    for (std::size_t i = 0; i < group.size(); ++i) {
      const auto pairs = channels.next_in_ring(i);
      const MessageCost cost = model.network.message_in_parts(pairs);
      limits.push_back({cost.overhead_s + cost.latency_s, cost.seconds_per_byte});
      if (groups.size() == 1) continue;
      for (const auto& [from, to] : pairs)
        for (const int id : model.network.shared(from, to)) {
          ExchangeLimit& limit = shared[id];
          limit.message_s = std::max(limit.message_s, limits.back().message_s);
          limit.seconds_per_byte +=
              model.network.shared_seconds_per_byte(id) / static_cast<double>(pairs.size());
        }
    }
  }
  for (const auto& [id, limit] : shared) limits.push_back(limit);
  return limits;
}

/// All pairs send at once, so a shared capacity carries the messages of all that cross it.
std::vector<ExchangeLimit> pair_limits(const IterationModel& model, const std::vector<int>& devices,
                                       Exchange kind) {
  std::vector<ExchangeLimit> limits;
  std::map<int, ExchangeLimit> shared;  // by capacity
  for_each_pair(model, devices, kind, [&](int from, int to, double size) {
    const MessageCost cost = model.network.message(from, to);
    const double message_s = cost.overhead_s + cost.latency_s;
    if (const ExchangeLimit own{message_s, size * cost.seconds_per_byte};
        limits.empty() || !(limits.back() == own))
      limits.push_back(own);
    for (const int id : model.network.shared(from, to)) {
      ExchangeLimit& limit = shared[id];
      limit.message_s = std::max(limit.message_s, message_s);
      limit.seconds_per_byte += size * model.network.shared_seconds_per_byte(id);
    }
  });
  for (const auto& [id, limit] : shared) limits.push_back(limit);
  return limits;
}

}  // namespace

std::vector<ExchangeLimit> exchange_limits(const IterationModel& model, const std::vector<int>& devices,
                                           Exchange kind) {
  return kind == Exchange::all_reduce ? all_reduce_limits(model, devices) : pair_limits(model, devices, kind);
}

double exchange_s(const IterationModel& model, const std::vector<int>& devices, std::pair<int, int> layers,
                  bool backward, int recomputed) {
  double sum = 0;
  for (const Exchange kind : exchange_kinds) {
    const ExchangedData data = model.stages_of(devices.size()).exchanged(kind, layers, backward, recomputed);
    if (data.messages == 0) continue;
    double slowest = 0;
    for (const ExchangeLimit& it : exchange_limits(model, devices, kind))
      slowest = std::max(slowest, it.seconds(data));
    if (kind == Exchange::keys_values) {
      const ComputeTime time = slowest_compute(model, devices, layers, recomputed);
      slowest = std::max(0.0, slowest - (backward ? time.hidden_backward_s : time.hidden_forward_s));
    }
    sum += slowest;
  }
  return sum;
}

PipelineCost pipeline_cost(const IterationModel& model, const Pipeline& pipeline, int replicas, int flush,
                           InFlightByDevice& in_flight) {
  PipelineCost cost;
  cost.layers = virtual_stage_layers(pipeline, model.chunks);
  cost.work.micro_batches = pipeline.micro_batches;
  cost.work.flush = flush;
  cost.work.chunks = model.chunks;
  cost.work.messaging = model.messaging;
  add_recomputed(model, pipeline, replicas, flush, in_flight, cost);
  add_stage_times(model, pipeline, cost);
  add_compression(model, pipeline, cost);
  add_hops(model, pipeline, cost);
  if (model.network.is_priced()) add_exchange_egress(model, pipeline, cost);
  add_planned_orders(model, pipeline, replicas, cost);
  cost.time = pipeline_time(model.schedule, cost.work);
  cost.earliest = earliest_times(model, cost);
  add_link_totals(model.schedule, cost);
  add_updates(model, pipeline, replicas, cost);
  add_memory(model, pipeline, replicas, flush, in_flight, cost);
  return cost;
}

}  // namespace dtfm::cost
