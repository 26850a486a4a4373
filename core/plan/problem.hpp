// The input of planning and simulation: topology, job and calibrated constants.
#pragma once

#include <cstddef>

#include "core/cluster/calibration.hpp"
#include "core/plan/job.hpp"
#include "core/plan/roofline.hpp"
#include "core/base/shared.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm {

struct Problem {
  Shared<Topology> topology;
  Job job;
  Calibration constants;
  Roofline roofline = {};  // for GPUs without a profile in the job
};

/// Calibrated seconds of a message from device `from` to device `to` before its first byte; 0 if they are the
/// same.
inline double message_overhead_s(const Calibration& constants, const Topology& topology, int from, int to) {
  const auto host = [&](int device) { return topology.devices[static_cast<std::size_t>(device)].host; };
  if (from == to) return 0;
  return host(from) == host(to) ? constants.local_message_overhead_s : constants.message_overhead_s;
}

}  // namespace dtfm
