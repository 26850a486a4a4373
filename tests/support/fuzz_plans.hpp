// Shared code of the plan-reader fuzzers: a small topology and job, and the check of every accepted plan.
#pragma once

#include <cstdlib>
#include <string>

#include <Eigen/Core>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"
#include "core/io/readers/plan_reader.hpp"
#include "core/io/writers/plan_json.hpp"

namespace dtfm {
using namespace io;

/// Returns a topology with devices a … d.
inline Topology four_devices() {
  Topology topology;
  topology.name = "four";
  topology.sites.resize(1);
  topology.sites[0].name = "site";
  topology.devices.resize(4);
  for (int i = 0; i < 4; ++i) {
    topology.devices[static_cast<std::size_t>(i)].id = std::string(1, static_cast<char>('a' + i));
    topology.devices[static_cast<std::size_t>(i)].host = i;
  }
  topology.links = MeasuredLinks{Eigen::MatrixXd::Constant(4, 4, 1e-3), Eigen::MatrixXd::Constant(4, 4, 1e9)};
  return topology;
}

inline Job four_layers() {
  Job job;
  job.name = "small";
  job.model = Transformer{4, 8, 2, 16, 100};
  job.training.global_batch = 8;
  return job;
}

/// The same with two chunks per device.
inline Job four_interleaved_layers() {
  Job job = four_layers();
  job.execution.schedule = Schedule::interleaved;
  job.execution.chunks = 2;
  return job;
}

/// Aborts unless `plan`, written as a plan file, is read back as the same plan.
inline void check_reads_back(const Topology& topology, const Job& job, const Plan& plan) {
  const std::string written = plan_json(topology, job, plan).dump();
  try {
    const Plan again = PlanFile(written, "written.json").plan(topology, job).plan;
    if (plan_json(topology, job, again).dump() != written) std::abort();
  } catch (const Error&) {
    std::abort();
  }
}

}  // namespace dtfm
