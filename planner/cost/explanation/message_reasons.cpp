#include "planner/cost/explanation/message_reasons.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/base/index.hpp"
#include "core/plan/shards.hpp"
#include "planner/cost/iteration_time/planned_order.hpp"
#include "planner/cost/iteration_time/warm_up.hpp"

namespace dtfm::cost {
namespace {

using LimitKind = RateLimit::Kind;
using Exposure = MessageReason::Exposure;

/// Savings below this share of the iteration are rounding, or the search of warm-ups to 0.1 %.
constexpr double message_rounding = 1e-3;

/// Identifies a capacity that messages share.
using CapacityKey = std::tuple<LimitKind, bool, int, int>;

CapacityKey key_of(const Topology& topology, const RateLimit& it) {
  const Device &from = topology.devices[at(it.from)], &to = topology.devices[at(it.to)];
  const Device& end = it.is_up ? from : to;
  switch (it.kind) {
    case LimitKind::sender:
      return {it.kind, true, it.from, topology.link_index(it.from, it.to)};
    case LimitKind::devices:
      return {it.kind, it.is_up, it.is_up ? it.from : it.to, 0};
    case LimitKind::hosts:
      return {it.kind, it.is_up, end.host, 0};
    case LimitKind::sites:
      return {it.kind, it.is_up, end.site, 0};
    case LimitKind::site_pair:
      return {it.kind, from.host == to.host, from.site, to.site};
    case LimitKind::link:
    case LimitKind::window:
      break;
  }
  return {it.kind, true, it.from, it.to};
}

/// Visits sender, receiver and bytes of the messages of a micro-batch over a virtual stage boundary.
template <class Visit>
void for_each_message(const IterationModel& model, const Pipeline& pipeline, std::size_t boundary, int layer,
                      bool is_forward, const Visit& visit) {
  const std::size_t count = pipeline.stages.size();
  const std::vector<int>&here = pipeline.stages[boundary % count].devices,
        &next = pipeline.stages[(boundary + 1) % count].devices;
  const int parts = parts_between(here, next);
  for (int part = 0; part < parts; ++part) {
    int from = device_of_part(here, part, parts), to = device_of_part(next, part, parts);
    if (from == to) continue;
    if (!is_forward) std::swap(from, to);
    visit(from, to, model.boundary_bytes(from, to, parts, layer));
  }
}

/// Seconds per iteration for which messages between stages keep each shared capacity busy.
std::map<CapacityKey, double> busy_seconds(const IterationModel& model, const Plan& plan) {
  const Topology& topology = model.problem.topology;
  std::map<CapacityKey, double> seconds;
  for (const Pipeline& pipeline : plan.pipelines) {
    const auto layers = virtual_stage_layers(pipeline, model.chunks);
    for (std::size_t i = 0; i + 1 < layers.size(); ++i)
      for (const bool is_forward : {true, false})
        for_each_message(
            model, pipeline, i, layers[i].second, is_forward, [&](int from, int to, double bytes) {
              for (const RateLimit& it : rate_limits(topology, model.problem.constants, from, to))
                if (!it.is_of_flow())
                  seconds[key_of(topology, it)] +=
                      pipeline.micro_batches * bytes * bits_per_byte / it.bits_per_s;
            });
  }
  return seconds;
}

/// Sets what limits the messages of the hop in its slower direction.
void set_limits(const IterationModel& model, const Plan& plan, const std::map<CapacityKey, double>& busy,
                MessageReason& reason) {
  const Topology& topology = model.problem.topology;
  const Pipeline& pipeline = plan.pipelines[at(reason.pipeline)];
  const auto layers = virtual_stage_layers(pipeline, model.chunks);
  double slowest_s = -1;
  for (const bool is_forward : {true, false})
    for_each_message(model, pipeline, at(reason.stage), layers[at(reason.stage)].second, is_forward,
                     [&](int from, int to, double bytes) {
                       const auto limits = rate_limits(topology, model.problem.constants, from, to);
                       if (limits.empty()) return;
                       const double message_s = bytes * bits_per_byte / limits.front().bits_per_s;
                       if (message_s <= slowest_s) return;
                       slowest_s = message_s;
                       reason.flow = limits.front();
                       reason.flow.busy_s = pipeline.micro_batches * message_s;
                       reason.shared.reset();
                       for (RateLimit it : limits) {
                         if (it.is_of_flow()) continue;
                         it.busy_s = busy.at(key_of(topology, it));
                         const double least_s = reason.shared ? reason.shared->busy_s
                                                              : reason.flow.busy_s * (1 + message_rounding);
                         if (it.busy_s > least_s) reason.shared = it;
                       }
                     });
}

Exposure exposure_of(const IterationModel& model, const PipelineWork& work, std::size_t hop, double exposed_s,
                     double iteration_s) {
  const HopTime &there = work.forward_hops[hop], &back = work.backward_hops[hop];
  const double trip_s = there.occupancy_s + there.latency_s + back.occupancy_s + back.latency_s;
  const int flushes = flush_count(work.flush, work.micro_batches);
  if (exposed_s <= flushes * trip_s + message_rounding * iteration_s) return Exposure::hidden;
  const ScheduleTraits& schedule = traits(model.schedule);
  double computing_s = 0;
  for (std::size_t i = 0; i < work.forward_s.size(); ++i)
    computing_s =
        std::max(computing_s, schedule.forwards_first ? std::max(work.forward_s[i], work.backward_s[i])
                                                      : work.forward_s[i] + work.backward_s[i]);
  if (std::max(there.occupancy_s, back.occupancy_s) > computing_s) return Exposure::busy_link;
  if (schedule.is_blocking || work.messaging != Messaging::ahead) return Exposure::blocking;
  if (schedule.forwards_first) return Exposure::busy_link;  // in one direction
  return schedule.alternates || schedule.has_planned_warm_up ? Exposure::round_trip : Exposure::order;
}

/// Forwards of the stage before its first backward, minus those of the next stage.
int computed_ahead(const IterationModel& model, const PipelineWork& work, std::size_t stage) {
  if (!traits(model.schedule).has_planned_warm_up) return 1;
  const std::vector<int> warm_ups = work.warm_ups.empty() ? choose_warm_ups(work) : work.warm_ups;
  return warm_ups[stage] - warm_ups[stage + 1];
}

/// The plan and its problem under eager-1f1b with open warm-ups.
struct EagerPlan {
  Problem problem;
  Plan plan;
};
EagerPlan under_eager(const IterationModel& model, const Plan& plan) {
  EagerPlan eager{model.problem, without_planned_orders(plan)};
  eager.problem.job.execution.schedule = eager.plan.execution.schedule = Schedule::eager_one_f_one_b;
  return eager;
}

/// Micro-batches that a stage holds at most.
int held_by(Schedule schedule, const Pipeline& pipeline, std::size_t stage, int between) {
  const int stages = static_cast<int>(pipeline.stages.size());
  return traits(schedule).in_flight({stages,
                                     static_cast<int>(stage),
                                     1,
                                     between,
                                     {.warm_up = pipeline.stages[stage].warm_up, .passes = {}}});
}

std::optional<LongerWarmUp> longer_warm_up(const IterationModel& model, const Plan& plan, double now_s) {
  const ScheduleTraits& schedule = traits(model.schedule);
  if (!(schedule.alternates || schedule.has_planned_warm_up) || schedule.is_blocking || model.chunks > 1 ||
      model.sharding.gradients || model.messaging != Messaging::ahead)
    return std::nullopt;
  const EagerPlan eager = under_eager(model, plan);
  Problem roomy = eager.problem;
  for (Gpu& gpu : roomy.topology.edit().gpus) gpu.memory = Bytes(1e6 * gpu.memory.value());
  const std::vector<int> sizes = stage_sizes(plan);
  const IterationModel roomy_model(roomy, sizes, model.shared_network),
      eager_model(eager.problem, sizes, model.shared_network);
  LongerWarmUp result;
  result.saved_s = now_s - estimate_iteration(roomy_model, eager.plan).iteration_s;
  if (result.saved_s <= message_rounding * now_s) return std::nullopt;
  const IterationEstimate fitting = estimate_iteration(eager_model, eager.plan);
  result.fitting_s = fitting.deficit_bytes > 0 ? 0 : std::max(0.0, now_s - fitting.iteration_s);
  const Plan chosen = with_planned_orders(roomy_model, eager.plan);
  for (const DeviceMemory& it : device_memory(eager_model, chosen)) {
    if (it.needed - it.capacity <= result.deficit_bytes) continue;
    for (std::size_t i = 0; i < chosen.pipelines.size(); ++i)
      for (std::size_t stage = 0; stage < chosen.pipelines[i].stages.size(); ++stage) {
        const Pipeline& pipeline = chosen.pipelines[i];
        const std::vector<int>& devices = pipeline.stages[stage].devices;
        if (std::find(devices.begin(), devices.end(), it.device) == devices.end()) continue;
        const int between = micro_batches_per_flush(plan.execution.flush.value_or(0), pipeline.micro_batches);
        result.pipeline = static_cast<int>(i);
        result.stage = static_cast<int>(stage);
        result.micro_batches = held_by(Schedule::eager_one_f_one_b, pipeline, stage, between) -
                               held_by(model.schedule, plan.pipelines[i], stage, between);
        result.deficit_bytes = it.needed - it.capacity;
      }
  }
  return result;
}

}  // namespace

std::vector<RateLimit> rate_limits(const Topology& topology, const Calibration& constants, int from, int to) {
  std::vector<RateLimit> limits;
  const auto add = [&](LimitKind kind, bool is_up, BitsPerSecond rate) {
    if (rate < unlimited)
      limits.push_back({kind, is_up, from, to, rate.value() * constants.network_efficiency});
  };
  const Link link = topology.link(from, to);
  const Device &sender = topology.devices[at(from)], &receiver = topology.devices[at(to)];
  add(link.shared_by_sender ? LimitKind::sender : LimitKind::link, true, link.bandwidth);
  if (const Transport* transport = topology.transport_between(from, to))
    limits.push_back({LimitKind::window, true, from, to,
                      transport->window.value() * bits_per_byte / topology.round_trip(from, to).value()});
  add(LimitKind::site_pair, true, link.capacity);
  if (sender.host != receiver.host) {
    add(LimitKind::devices, true, sender.uplink);
    add(LimitKind::devices, false, receiver.downlink);
    add(LimitKind::hosts, true, sender.host_uplink);
    add(LimitKind::hosts, false, receiver.host_downlink);
  }
  if (sender.site != receiver.site) {
    add(LimitKind::sites, true, topology.sites[at(sender.site)].uplink);
    add(LimitKind::sites, false, topology.sites[at(receiver.site)].downlink);
  }
  std::stable_sort(limits.begin(), limits.end(),
                   [](const RateLimit& a, const RateLimit& b) { return a.bits_per_s < b.bits_per_s; });
  return limits;
}

MessageReasons message_reasons(const IterationModel& model, const Plan& plan) {
  MessageReasons result;
  IterationEstimator estimator(model);
  const IterationEstimate& estimate = estimator.estimate(plan);
  const auto& ends = estimate.pipeline_s;
  const int slowest = static_cast<int>(std::max_element(ends.begin(), ends.end()) - ends.begin());
  const PipelineWork& work = estimator.work(slowest);
  const std::size_t stages = plan.pipelines[at(slowest)].stages.size();
  if (work.micro_batches == 0) return result;
  const auto busy = busy_seconds(model, plan);
  const double end_s = pipeline_time(model.schedule, work).end_s;
  // The hops of all chunks; the last one leads back to the first stage.
  for (std::size_t stage = 0; stage < std::min(stages, work.forward_hops.size()); ++stage) {
    MessageReason reason;
    reason.pipeline = slowest;
    reason.stage = static_cast<int>(stage);
    PipelineWork without = work;
    for (std::size_t i = stage; i < work.forward_hops.size(); i += stages) {
      for (const HopTime* hop : {&work.forward_hops[i], &work.backward_hops[i]}) {
        reason.trip_s += hop->occupancy_s + hop->latency_s;
        reason.latency_s += hop->latency_s;
      }
      without.forward_hops[i] = without.backward_hops[i] = {};
    }
    reason.exposed_s = std::max(0.0, end_s - pipeline_time(model.schedule, without).end_s);
    reason.exposure = exposure_of(model, work, stage, reason.exposed_s, estimate.iteration_s);
    if (work.chunks == 1) reason.warm_up = computed_ahead(model, work, stage);
    set_limits(model, plan, busy, reason);
    result.hops.push_back(reason);
  }
  result.longer_warm_up = longer_warm_up(model, plan, estimate.iteration_s);
  return result;
}

}  // namespace dtfm::cost
