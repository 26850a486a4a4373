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
  constexpr std::array<std::string_view, 5> names = {"compute", "point_to_point", "gradient_sync",
                                                     "optimizer_step", "overhead"};
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
  result.peak_memory = peak_memory_device(model, plan);
  using Kind = Bottleneck::Kind;
  result.dominant = {Kind::stages, result.critical_path.compute_s, 0};
  const auto offer = [&](Kind kind, double seconds) {
    if (seconds > result.dominant.seconds) result.dominant = {kind, seconds, 0};
  };
  offer(Kind::hops, result.critical_path.sending_s);
  const Kind of_pipeline = result.dominant.kind;
  offer(Kind::gradient_sync, result.parts.sync_s);
  offer(Kind::update, result.parts.update_s);
  offer(Kind::overhead, result.parts.overhead_s);
  if (estimate.iteration_s > 0) result.dominant.share = result.dominant.seconds / estimate.iteration_s;
  for (const PipelineResource& resource : pipeline_resources(model.schedule, work, slowest)) {
    if (resource.is_hop != (of_pipeline == Kind::hops)) continue;
    if (resource.seconds > result.resource.seconds || result.resource.pipeline < 0)
      result.resource = resource;
  }
  return result;
}

bool is_compute_bound(const IterationModel& model, const Plan& plan) {
  IterationEstimator estimator(model);
  const IterationEstimate& estimate = estimator.estimate(plan);
  if (estimate.gradient_sync_end_s - estimate.pipelines_s >=
      max_compute_bound_sync_share * estimate.iteration_s)
    return false;
  for (int pipeline = 0; pipeline < model.replicas_of(plan); ++pipeline) {
    const PipelineWork& work = estimator.work(pipeline);
    const CriticalPathShares critical_path = critical_path_shares(model.schedule, work);
    if (work.micro_batches > 0 && critical_path.sending_s >= critical_path.compute_s) return false;
  }
  return true;
}

}  // namespace dtfm::cost
