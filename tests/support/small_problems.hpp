// Small problems for the simulator with round numbers: 1 s forward and 2 s backward per layer.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "simulator/graph/graph_replay.hpp"
#include "simulator/iteration/device_starts.hpp"
#include "simulator/iteration/iteration_graph.hpp"

namespace dtfm {
using namespace sim;

/// Returns `per_site[i]` single-GPU devices of 1 TFLOP/s at site i. Flows share nothing, neither inside a
/// site nor between sites.
inline Topology flat_topology(const std::vector<int>& per_site, Link inside, Link between) {
  Topology topology;
  topology.name = "flat";
  Gpu gpu{"one", Bytes(16e9), FlopsPerSecond(1e12)};
  gpu.peak_fp32 = gpu.peak;
  gpu.host_link = unlimited;
  gpu.memory_bandwidth = unlimited;  // so that the duration of a layer depends on its FLOPs only
  topology.gpus = {gpu};
  RuleLinks rules;
  const auto sites = static_cast<Eigen::Index>(per_site.size());
  rules.links = {inside, between};
  rules.table = Eigen::MatrixXi::Ones(sites, sites);
  rules.table.diagonal().setZero();
  rules.same_host = Eigen::MatrixXi::Constant(sites, sites, -1);
  for (int site = 0; site < static_cast<int>(per_site.size()); ++site) {
    topology.sites.push_back({fmt::format("s{}", site)});
    for (int i = 0; i < per_site[at(site)]; ++i) {
      Device device;
      device.id = fmt::format("s{}/{}", site, i);
      device.site = site;
      device.host = topology.size();
      device.gpu = 0;
      topology.devices.push_back(device);
      rules.link_class.push_back(site);
    }
  }
  topology.links = std::move(rules);
  return topology;
}

inline Link link_of(double latency_s, double bytes_per_s) {
  Link link;
  link.latency = Seconds(latency_s);
  link.bandwidth = BitsPerSecond(8 * bytes_per_s);
  return link;
}

/// Returns a job of `layers` layers of 1 TFLOP forward, with `parameters` parameters and an output of
/// `output` bytes each.
inline Job chain_job(int layers, double parameters, double output) {
  Job job;
  job.name = "chain";
  Layer layer;
  layer.name = "layer";
  layer.parameters = parameters;
  layer.forward = Flops(1e12);
  layer.backward = Flops(2e12);
  layer.output = Bytes(output);
  layer.activation_memory = Bytes(100);
  job.model = LayerChain{1, std::vector<Layer>(at(layers), layer)};
  job.training.global_batch = 1;
  return job;
}

/// Returns a plan that assigns the devices in order: the first `stages` devices to pipeline 0, and so on.
inline Plan plan_of(const Job& job, int stages, int replicas, int micro_batches) {
  Plan plan{1, job.execution, {}};
  for (int replica = 0; replica < replicas; ++replica) {
    Pipeline pipeline{micro_batches, {}};
    for (int stage = 0; stage < stages; ++stage)
      pipeline.stages.push_back(
          {even_split(layer_count(job.model), stages, stage), {replica * stages + stage}});
    plan.pipelines.push_back(std::move(pipeline));
  }
  return plan;
}

inline double replay_makespan(const LabelledGraph& lowered) {
  const Replay result = replay(lowered.graph);
  for (const TaskRecord& task : result.tasks)
    if (task.state != TaskState::done) return -1;
  return result.makespan;
}

/// The mean length of the iterations after the first.
inline double steady_seconds(LabelledGraph lowered) {
  return replay_steady(lowered).seconds;
}

/// Returns heterogeneous devices with prices; all decisions that these layers permit are automatic.
inline Problem undecided_problem() {
  Problem problem{flat_topology({3, 3, 2}, link_of(0.01, 100), link_of(0.1, 25)), chain_job(6, 10, 100), {}};
  problem.job.training.global_batch = 12;
  problem.topology.edit().devices[4].speed = 0.7;
  for (Device& device : problem.topology.edit().devices) device.price = DollarsPerHour(device.site + 1);
  problem.job.automatic = {Setting::schedule, Setting::gradient_sync, Setting::micro_batch};
  return problem;
}

}  // namespace dtfm
