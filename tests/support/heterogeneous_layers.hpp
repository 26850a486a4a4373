// Jobs with heterogeneous layers, on which estimates are compared with the simulator.
#pragma once

#include <string>
#include <variant>

#include "core/base/rng.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {

/// Returns a random integer in [least, most].
inline int random_int(Rng& rng, int low, int high) {
  return low + static_cast<int>(rng.below(static_cast<std::uint32_t>(high - low + 1)));
}

/// Returns a job of 16 to 24 different layers that take a few seconds each.
inline Job heterogeneous_layers(Rng& rng, Schedule schedule, GradientSync sync) {
  Job job = chain_job(random_int(rng, 16, 24), 0, 0);
  for (Layer& layer : std::get<LayerChain>(job.model).layers) {
    layer.parameters = 5e6 * rng.uniform();
    layer.forward = Flops(1e12 * (0.5 + rng.uniform()));
    layer.backward = layer.forward * 2;
    layer.output = Bytes(1e6 * rng.uniform());
  }
  job.execution.schedule = schedule;
  job.execution.gradient_sync = sync;
  if (traits(schedule).has_chunks) job.execution.chunks = 2;
  return job;
}

}  // namespace dtfm
