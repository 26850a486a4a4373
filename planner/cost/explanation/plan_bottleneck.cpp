#include "planner/cost/explanation/plan_bottleneck.hpp"

#include <algorithm>
#include <array>

#include "core/base/index.hpp"
#include "core/plan/virtual_stages.hpp"

namespace dtfm::cost {
namespace {

/// Relative slowdown of a resource: smaller than differences that matter between resources, far above
/// rounding.
constexpr double perturbation = 1.0 / 1024;

/// Critical-path share, s, of the times that `perturb` makes slower by a factor 1 + `perturbation`.
template <class Slow>
double critical_share_s(Schedule schedule, const PipelineWork& work, const Slow& perturb) {
  PipelineWork perturbed = work;
  perturb(perturbed);
  return (pipeline_time(schedule, perturbed).end_s - pipeline_time(schedule, work).end_s) / perturbation;
}

void perturb_time(double& seconds) {
  seconds *= 1 + perturbation;
}

void perturb_time(HopTime& hop) {
  perturb_time(hop.occupancy_s);
  perturb_time(hop.latency_s);
}

CriticalPathShares critical_path_shares(Schedule schedule, const PipelineWork& work) {
  const double compute = critical_share_s(schedule, work, [](PipelineWork& it) {
    for (double& seconds : it.forward_s) perturb_time(seconds);
    for (double& seconds : it.backward_s) perturb_time(seconds);
    for (double& seconds : it.weight_gradient_s) perturb_time(seconds);
  });
  const double sending = critical_share_s(schedule, work, [](PipelineWork& it) {
    for (HopTime& hop : it.forward_hops) perturb_time(hop);
    for (HopTime& hop : it.backward_hops) perturb_time(hop);
  });
  return {compute, sending};
}

/// Seconds that one more micro-batch adds, without a flush.
double steady_s(Schedule schedule, PipelineWork work, int devices) {
  work.flush = 0;
  if (!traits(schedule).in_rounds) return pipeline_time(schedule, work).steady_s;
  const double before = pipeline_time(schedule, work).end_s;
  work.micro_batches += devices;  // rounds are multiples of the stages
  return (pipeline_time(schedule, work).end_s - before) / devices;
}

IterationParts parts_of(Schedule schedule, const IterationEstimate& estimate, const PipelineWork& work) {
  IterationParts parts;
  if (work.micro_batches > 0) {
    const int devices = static_cast<int>(work.forward_s.size()) / work.chunks;
    const double all = (work.micro_batches - flush_count(work.flush, work.micro_batches)) *
                       steady_s(schedule, work, devices);
    parts.steady_s = std::min(all, estimate.pipelines_s);
  }
  parts.fill_s = estimate.pipelines_s - parts.steady_s;
  parts.sync_s = std::max(0.0, estimate.gradient_sync_end_s - estimate.pipelines_s);
  parts.update_s = estimate.update_s;
  parts.overhead_s = estimate.overhead_s;
  return parts;
}

PipelineWork without_messages(PipelineWork work) {
  for (auto* hops : {&work.forward_hops, &work.backward_hops})
    for (HopTime& hop : *hops) hop = {};
  return work;
}

PipelineWork without_compute(PipelineWork work) {
  for (auto* times : {&work.forward_s, &work.backward_s, &work.weight_gradient_s})
    std::fill(times->begin(), times->end(), 0);
  return work;
}

/// Seconds that all pipelines together would be shorter if each ended at `end_s` of its work.
template <class EndOf>
double saved_by_all(const IterationModel& model, IterationEstimator& estimator,
                    const IterationEstimate& estimate, const EndOf& end_of) {
  double end_s = 0;
  for (std::size_t i = 0; i < estimate.pipeline_s.size(); ++i) {
    const PipelineWork& work = estimator.work(static_cast<int>(i));
    if (work.micro_batches == 0) continue;
    // Shares of links delay the pipeline beyond the time of its work.
    const double delay_s = estimate.pipeline_s[i] - pipeline_time(model.schedule, work).end_s;
    end_s = std::max(end_s, std::min(estimate.pipeline_s[i], end_of(work, std::max(0.0, delay_s))));
  }
  return std::max(0.0, estimate.pipelines_s - end_s);
}

double saved_without_messages_s(const IterationModel& model, IterationEstimator& estimator,
                                const IterationEstimate& estimate) {
  return saved_by_all(model, estimator, estimate, [&](const PipelineWork& work, double) {
    return pipeline_time(model.schedule, without_messages(work)).end_s;
  });
}

std::array<Bottleneck, bottleneck_kinds> savings_of(const IterationModel& model,
                                                    IterationEstimator& estimator,
                                                    const IterationEstimate& estimate,
                                                    const IterationParts& parts) {
  const double compute_s =
      saved_by_all(model, estimator, estimate, [&](const PipelineWork& work, double delay_s) {
        return pipeline_time(model.schedule, without_compute(work)).end_s + delay_s;
      });
  const double bubble_s =
      saved_by_all(model, estimator, estimate, [&](const PipelineWork& work, double delay_s) {
        const int devices = static_cast<int>(work.forward_s.size()) / work.chunks;
        return work.micro_batches * steady_s(model.schedule, work, devices) + delay_s;
      });
  const std::array seconds = {compute_s,      saved_without_messages_s(model, estimator, estimate),
                              bubble_s,       parts.sync_s,
                              parts.update_s, parts.overhead_s};
  std::array<Bottleneck, bottleneck_kinds> savings;
  for (std::size_t i = 0; i < savings.size(); ++i) {
    savings[i] = {static_cast<Bottleneck::Kind>(i), seconds[i], 0};
    if (estimate.iteration_s > 0) savings[i].share = seconds[i] / estimate.iteration_s;
  }
  return savings;
}

TimeShares shares_of(const IterationModel& model, const IterationEstimate& estimate,
                     const IterationParts& parts, const PipelineWork& work, const Pipeline& pipeline) {
  TimeShares shares;
  shares.sync_s = parts.sync_s;
  shares.update_s = parts.update_s;
  shares.overhead_s = parts.overhead_s;
  if (work.micro_batches == 0) return shares;
  const std::size_t devices = work.forward_s.size() / at(work.chunks);
  const auto layers = virtual_stage_layers(pipeline, work.chunks);
  for (std::size_t device = 0; device < devices; ++device) {
    double compute_s = 0, exchange = 0;
    for (std::size_t i = device; i < work.forward_s.size(); i += devices) {
      compute_s += work.micro_batches * (work.forward_s[i] + work.backward_s[i]);
      const std::vector<int>& its = devices_of(pipeline, i);
      exchange += work.micro_batches * (exchange_s(model, its, layers[i], false, work.recomputed[i]) +
                                        exchange_s(model, its, layers[i], true, work.recomputed[i]));
    }
    if (compute_s <= shares.compute_s) continue;
    shares.compute_s = compute_s;
    shares.exchange_s = exchange;
  }
  const double at_once_s =
      std::min(estimate.pipelines_s, pipeline_time(model.schedule, without_messages(work)).end_s);
  shares.messages_s = estimate.pipelines_s - at_once_s;
  shares.compute_s = std::min(shares.compute_s, at_once_s);
  shares.bubble_s = at_once_s - shares.compute_s;
  return shares;
}

/// The device whose memory is used most, relative to its capacity; empty if no GPU's memory is known.
std::optional<DeviceMemory> peak_memory_device(const IterationModel& model, const Plan& plan) {
  const std::vector<DeviceMemory> memory = device_memory(model, plan);
  const auto peak = std::max_element(memory.begin(), memory.end(), [](const auto& a, const auto& b) {
    return a.needed / a.capacity < b.needed / b.capacity;
  });
  return peak == memory.end() ? std::nullopt : std::optional(*peak);
}

/// All resources of pipeline `pipeline`, which has this work: its stages, then its hops.
std::vector<PipelineResource> pipeline_resources(Schedule schedule, const PipelineWork& work, int pipeline) {
  const std::size_t devices = work.forward_s.size() / at(work.chunks);
  std::vector<PipelineResource> result;
  for (std::size_t stage = 0; stage < devices; ++stage) {
    const double seconds = critical_share_s(schedule, work, [&](PipelineWork& it) {
      for (std::size_t i = stage; i < it.forward_s.size(); i += devices) {
        perturb_time(it.forward_s[i]);
        perturb_time(it.backward_s[i]);
        perturb_time(it.weight_gradient_s[i]);
      }
    });
    result.push_back({false, pipeline, static_cast<int>(stage), seconds, 0});
  }
  const auto hop_share_s = [&](std::size_t stage, const auto& perturb) {
    return critical_share_s(schedule, work, [&](PipelineWork& it) {
      for (std::size_t i = stage; i < it.forward_hops.size(); i += devices) {
        perturb(it.forward_hops[i]);
        perturb(it.backward_hops[i]);
      }
    });
  };
  for (std::size_t stage = 0; stage < std::min(devices, work.forward_hops.size()); ++stage)
    result.push_back({true, pipeline, static_cast<int>(stage),
                      hop_share_s(stage, [](HopTime& hop) { perturb_time(hop); }),
                      hop_share_s(stage, [](HopTime& hop) { perturb_time(hop.latency_s); })});
  return result;
}

}  // namespace

std::string_view name_of(Bottleneck::Kind kind) {
  constexpr std::array<std::string_view, bottleneck_kinds> names = {
      "compute", "point_to_point", "pipeline_bubble", "gradient_sync", "optimizer_step", "overhead"};
  return names[static_cast<std::size_t>(kind)];
}

PlanBottleneck find_bottleneck(const IterationModel& model, const Plan& plan) {
  IterationEstimator estimator(model);
  const IterationEstimate& estimate = estimator.estimate(plan);
  const auto& ends = estimate.pipeline_s;
  const int slowest = static_cast<int>(std::max_element(ends.begin(), ends.end()) - ends.begin());
  PlanBottleneck result;
  const PipelineWork& work = estimator.work(slowest);
  result.parts = parts_of(model.schedule, estimate, work);
  result.critical_path = critical_path_shares(model.schedule, work);
  result.shares = shares_of(model, estimate, result.parts, work, plan.pipelines[at(slowest)]);
  result.savings = savings_of(model, estimator, estimate, result.parts);
  result.peak_memory = peak_memory_device(model, plan);
  using Kind = Bottleneck::Kind;
  result.dominant = *std::max_element(result.savings.begin(), result.savings.end(),
                                      [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  const Kind dominant = result.dominant.kind;
  const bool is_of_pipeline = dominant == Kind::stages || dominant == Kind::hops || dominant == Kind::bubble;
  const bool wants_hop = is_of_pipeline ? dominant == Kind::hops
                                        : result.critical_path.sending_s > result.critical_path.compute_s;
  for (const PipelineResource& resource : pipeline_resources(model.schedule, work, slowest)) {
    if (resource.is_hop != wants_hop) continue;
    if (resource.seconds > result.resource.seconds || result.resource.pipeline < 0)
      result.resource = resource;
  }
  return result;
}

bool is_compute_bound(const IterationModel& model, const Plan& plan) {
  IterationEstimator estimator(model);
  const IterationEstimate& estimate = estimator.estimate(plan);
  const double most_s = max_compute_bound_exposed_share * estimate.iteration_s,
               sync_s = std::max(0.0, estimate.gradient_sync_end_s - estimate.pipelines_s);
  return estimate.iteration_s == 0 ||
         (sync_s < most_s && sync_s + saved_without_messages_s(model, estimator, estimate) < most_s);
}

}  // namespace dtfm::cost
