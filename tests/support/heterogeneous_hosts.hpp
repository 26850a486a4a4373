// Jobs on hosts with different numbers of GPUs, so that stages have different tensor degrees.
#pragma once

#include <numeric>
#include <vector>

#include "core/base/index.hpp"
#include "core/plan/problem.hpp"
#include "tests/support/small_problems.hpp"

namespace dtfm {

/// Returns a problem with the given numbers of GPUs per host, all in one site. The forward pass of one of the
/// 4 blocks takes about 13 ms on one GPU; its output takes 1.6 ms within a host and 9 ms between hosts.
inline Problem host_problem(const std::vector<int>& hosts, int micro_batches) {
  const int all = std::accumulate(hosts.begin(), hosts.end(), 0);
  Problem problem{flat_topology({all}, link_of(0.001, 2e6), link_of(0.001, 2e6)), {}, {}};
  int device = 0;
  for (std::size_t host = 0; host < hosts.size(); ++host)
    for (int i = 0; i < hosts[host]; ++i)
      problem.topology.edit().devices[at(device++)].host = static_cast<int>(host);
  auto& rules = std::get<RuleLinks>(problem.topology.edit().links);
  rules.links.push_back(link_of(0.0001, 1e7));
  rules.same_host(0, 0) = 2;
  problem.topology.edit().gpus[0].peak = FlopsPerSecond(1e9);
  Job& job = problem.job;
  job.name = "tiny";
  job.model = Transformer{4, 64, 4, 128, 100};
  job.efficiency = 1;
  job.training.global_batch = micro_batches;
  job.automatic[Setting::tensor] = true;
  return problem;
}

}  // namespace dtfm
