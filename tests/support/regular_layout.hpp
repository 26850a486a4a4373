// A regular layout on hosts with several GPUs: every pipeline passes from host to host.
#pragma once

#include <string>

#include "tests/support/small_problems.hpp"

namespace dtfm {

struct RegularLayout {
  Problem problem;
  Plan plan;
};

/// Host s has stage s of all pipelines, which is one layer or two chunks of one. All pipelines share the
/// host's uplink, on which a message takes 1 s, like the forward pass of a layer. Speeds lie between 1 −
/// `speed_spread` and 1.
inline RegularLayout regular_layout(Schedule schedule, int stages, int pipelines, int micro_batches,
                                    double speed_spread = 0) {
  const int chunks = schedule == Schedule::interleaved ? 2 : 1;
  RegularLayout it{{flat_topology({stages * pipelines}, link_of(0.01, 1e7), link_of(0.01, 1e7)),
                    chain_job(stages * chunks, 0, 1e6),
                    {}},
                   {1, {.schedule = schedule, .chunks = chunks, .gradient_sync = GradientSync::ring}, {}}};
  it.problem.job.execution.schedule = schedule;
  it.problem.job.execution.chunks = chunks;
  for (int i = 0; i < pipelines; ++i) it.plan.pipelines.push_back({micro_batches, {}});
  for (int number = 0; number < stages * pipelines; ++number) {
    Device& device = it.problem.topology.edit().devices[at(number)];
    const int stage = device.host = number / pipelines;
    device.host_uplink = BitsPerSecond(8e6);
    device.speed = 1 - speed_spread * (7 * number % 11) / 10;
    it.plan.pipelines[at(number % pipelines)].stages.push_back(
        {{stage * chunks, (stage + 1) * chunks}, {number}});
  }
  std::get<RuleLinks>(it.problem.topology.edit().links).same_host(0, 0) = 0;
  return it;
}

}  // namespace dtfm
