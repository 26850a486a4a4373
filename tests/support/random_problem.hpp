// Small random problems with heterogeneous layers, devices and links.
#pragma once

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/base/index.hpp"
#include "core/plan/problem.hpp"
#include "core/base/rng.hpp"

namespace dtfm {

/// Returns a log-uniform number in [least, most].
inline double random_size(Rng& rng, double low, double high) {
  return low * std::pow(high / low, rng.uniform());
}

struct SizeRange {
  double low = 0, high = 0;
};

/// Returns a layer with one to three times as many FLOPs backward as forward, without activations to keep.
inline Layer random_layer(Rng& rng, int number, SizeRange parameters, SizeRange forward, SizeRange output) {
  Layer layer;
  layer.name = fmt::format("layer {}", number);
  layer.parameters = random_size(rng, parameters.low, parameters.high);
  layer.forward = Flops(random_size(rng, forward.low, forward.high));
  layer.backward = Flops(layer.forward.value() * (1 + 2 * rng.uniform()));
  layer.output = Bytes(random_size(rng, output.low, output.high));
  return layer;
}

/// Returns a job of `layers` layers of 0.1 to 10 TFLOP forward and an independent number of FLOPs backward.
inline Job random_chain_job(Rng& rng, int layers) {
  Job job;
  job.name = "random";
  LayerChain chain;
  for (int i = 0; i < layers; ++i) {
    Layer layer = random_layer(rng, i, {1e6, 1e9}, {1e11, 1e13}, {1e5, 1e8});
    layer.activation_memory = Bytes(layer.output.value() * (1 + rng.uniform()));
    layer.replicated_memory = layer.output;
    chain.layers.push_back(layer);
  }
  job.model = chain;
  job.training.global_batch = 1 + static_cast<int>(rng.below(24));
  job.execution.recomputation = rng.below(2) == 0 ? Recomputation::none : Recomputation::full;
  return job;
}

/// Returns devices with two kinds of GPU at up to three sites. If `shared`, some capacities are shared by
/// several messages.
inline Topology random_topology(Rng& rng, int devices, bool shared) {
  Topology topology;
  topology.name = "random";
  for (const double peak : {1e12, 3e12}) {
    Gpu gpu{fmt::format("gpu {}", topology.gpus.size()), Bytes(random_size(rng, 4e9, 4e11)),
            FlopsPerSecond(peak)};
    gpu.peak_fp32 = gpu.peak;
    gpu.memory_bandwidth = BitsPerSecond(random_size(rng, 1e10, 1e13));
    gpu.host_link = BitsPerSecond(1e9);
    topology.gpus.push_back(gpu);
  }
  const int sites = 1 + static_cast<int>(rng.below(3));
  RuleLinks rules;
  rules.table = Eigen::MatrixXi::Zero(sites, sites);
  rules.same_host = Eigen::MatrixXi::Constant(sites, sites, -1);
  for (int from = 0; from < sites; ++from) {
    topology.sites.push_back({fmt::format("s{}", from)});
    if (shared && rng.below(2) == 0)
      topology.sites.back().uplink = BitsPerSecond(random_size(rng, 1e8, 1e10));
    for (int to = 0; to < sites; ++to) {
      Link link{Seconds(random_size(rng, 1e-5, 0.3)), BitsPerSecond(random_size(rng, 1e7, 1e11))};
      link.shared_by_sender = shared && rng.below(3) == 0;
      if (shared && rng.below(3) == 0)
        link.capacity = BitsPerSecond(link.bandwidth.value() * (1 + rng.uniform()));
      rules.table(from, to) = static_cast<int>(rules.links.size());
      rules.links.push_back(link);
    }
  }
  for (int i = 0; i < devices; ++i) {
    Device device;
    device.site = static_cast<int>(rng.below(static_cast<std::uint32_t>(sites)));
    device.id = fmt::format("s{}/{}", device.site, i);
    device.host = i;
    device.gpu = static_cast<int>(rng.below(2));
    device.speed = rng.below(3) == 0 ? 0.5 + rng.uniform() : 1;
    if (shared && rng.below(4) == 0) device.downlink = BitsPerSecond(random_size(rng, 1e8, 1e10));
    topology.devices.push_back(device);
    rules.link_class.push_back(device.site);
  }
  topology.links = std::move(rules);
  return topology;
}

}  // namespace dtfm
