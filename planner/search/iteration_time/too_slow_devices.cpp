#include "planner/search/iteration_time/too_slow_devices.hpp"

#include <algorithm>
#include <map>

#include "planner/cost/bounds/weighted_time_bound.hpp"

namespace dtfm::search {
namespace {

int max_devices_per_host(const Topology& topology) {
  std::map<int, int> devices_of_host;
  int most = 1;
  for (const Device& device : topology.devices) most = std::max(most, ++devices_of_host[device.host]);
  return most;
}

/// Lower bound on the fraction of a device's compute for one layer and micro-batch of `job` that any other
/// decisions leave: a stage has at most the devices of a host, a micro-batch may be a single sequence, and
/// recomputation adds at most another forward, so that at least half is left without it.
double min_share(const DecidedJob& job, const SettingSet& undecided) {
  double share = 1;
  if (undecided[Setting::tensor]) share /= max_devices_per_host(job.problem.topology);
  if (undecided[Setting::micro_batch]) share /= job.problem.job.execution.micro_batch;
  if (undecided[Setting::recompute] || undecided[Setting::recompute_layers]) share /= 2;
  return share;
}

}  // namespace

std::vector<int> too_slow_devices(const DecidedJob& job, const Job& undecided, double iteration_s) {
  const double share = min_share(job, undecided.automatic);
  std::vector<int> slow;
  for (int device = 0; device < job.problem.topology->size(); ++device)
    if (job.model.unknown(device).empty() && share * cost::min_compute_s(job.model, device) > iteration_s)
      slow.push_back(device);
  return slow;
}

}  // namespace dtfm::search
