// Small swarms with round numbers, and the devices of the SWARM paper.
#pragma once

#include "simulator/swarm/swarm.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {

/// Returns a job of `layers` layers. On every device, the forward pass of one sample takes `forward_s`, and
/// the backward pass, including recomputation of the forward pass, three times that. A layer has an
/// activation of `activation` bytes and `parameters` parameters.
inline Job swarm_job(int layers, double forward_s, double activation, double parameters, int global_batch) {
  Job job = chain_job(layers, parameters, activation);
  for (Layer& layer : std::get<LayerChain>(job.model).layers) {
    layer.forward = Flops(forward_s * 1e12);
    layer.backward = Flops(2 * forward_s * 1e12);
  }
  job.training.global_batch = global_batch;
  return job;
}

/// Returns devices in `sites` sites that are connected at unlimited rate, each behind an uplink and a
/// downlink of its own.
inline Topology access_link_topology(int sites, int per_site, double latency_s, double bytes_per_s) {
  const Link any = link_of(latency_s, 1e15);
  Topology topology = flat_topology(std::vector<int>(at(sites), per_site), any, any);
  for (Device& device : topology.devices) device.uplink = device.downlink = BitsPerSecond(8 * bytes_per_s);
  return topology;
}

/// Returns the job of the paper: 13 B parameters in 64 layers of hidden size 4,096, of which 1.01 B remain
/// after sharing, and sequences of 2,048 tokens in 16 bits. The forward pass of a layer is 24 s h² + 4 s² h =
/// 0.894 TFLOP, which a T4 is assumed to compute at 25 TFLOP/s. Activations are sent in 8 bits.
inline Job published_job() {
  Job job = swarm_job(64, 0.894 / 25, 2048.0 * 4096 * 2, 1.01e9 / 64, 1024);
  std::get<LayerChain>(job.model).sequence = 2048;
  job.execution.compression.activations = 0.5;
  return job;
}

}  // namespace dtfm
