#include "planner/search/iteration_time/too_slow_devices.hpp"

#include <algorithm>
#include <map>

#include "planner/cost/bounds/weighted_time_bound.hpp"

namespace dtfm::search {
namespace {

int most_devices_of_a_host(const Topology& topology) {
  std::map<int, int> devices_of_host;
  int most = 1;
  for (const Device& device : topology.devices) most = std::max(most, ++devices_of_host[device.host]);
  return most;
}

/// Of what a device computes for a layer and a micro-batch of `job`, at least so much is left under any other
/// decisions: a stage has no more devices than a host, a micro-batch may be of one sequence, and recomputing
/// adds at most a forward to a forward and a backward, so that half or more is left without it.
double least_share(const DecidedJob& job, const Automatic& undecided) {
  double share = 1;
  if (undecided.tensor) share /= most_devices_of_a_host(job.problem.topology);
  if (undecided.micro_batch) share /= job.problem.job.training.micro_batch;
  if (undecided.recomputation) share /= 2;
  return share;
}

}  // namespace

std::vector<int> too_slow_devices(const DecidedJob& job, const Job& undecided, double iteration_s) {
  const double share = least_share(job, undecided.automatic);
  std::vector<int> slow;
  for (int device = 0; device < job.problem.topology.size(); ++device)
    if (job.model.unknown(device).empty() && share * cost::min_compute_s(job.model, device) > iteration_s)
      slow.push_back(device);
  return slow;
}

}  // namespace dtfm::search
