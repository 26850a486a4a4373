// The sets of devices on which a scheme is tried.
#pragma once

#include <string>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"

namespace dtfm::api {

/// All devices; those of each site; those of each kind, everywhere and per site; and the fastest 1, 2, 4, …
/// and those of the fastest kinds together. A kind is a GPU with its speed; the fastest computes the layers
/// of the job in the least time. There are at most 64 sets. Devices are in canonical order
/// (canonical_topology.hpp). Of sets that differ only in names, only the first is returned, so that the
/// result does not depend on how devices are numbered.
std::vector<std::vector<int>> device_sets(const Problem& problem);

/// Number of devices with one GPU model at one site.
struct DeviceCount {
  std::string site, gpu;  // `gpu` is empty if it is not given
  int count = 0;
};

/// The devices of a plan by site and GPU, in canonical order.
std::vector<DeviceCount> device_counts(const Topology& topology, const Plan& plan);

/// "8 of 18 devices: cloud×8", with the GPUs of a site that has several; "18 devices" if these are all.
std::string format_devices_used(const Topology& topology, const std::vector<DeviceCount>& counts);

}  // namespace dtfm::api
