// Any bytes as a plan file give a plan or an Error; a plan that is accepted, written again, is accepted
// again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include <Eigen/Core>

#include "planner/core/error.hpp"
#include "planner/io/plan_json.hpp"
#include "planner/io/plan_reader.hpp"
#include "planner/io/text_file.hpp"

namespace {

/// Devices a … d.
dtfm::Topology four_devices() {
  dtfm::Topology topology;
  topology.name = "four";
  topology.sites.resize(1);
  topology.sites[0].name = "site";
  topology.devices.resize(4);
  for (int i = 0; i < 4; ++i) {
    topology.devices[static_cast<std::size_t>(i)].id = std::string(1, static_cast<char>('a' + i));
    topology.devices[static_cast<std::size_t>(i)].host = i;
  }
  topology.links =
      dtfm::MeasuredLinks{Eigen::MatrixXd::Constant(4, 4, 1e-3), Eigen::MatrixXd::Constant(4, 4, 1e9)};
  return topology;
}

dtfm::Job four_layers() {
  dtfm::Job job;
  job.name = "small";
  job.model = dtfm::Transformer{4, 8, 2, 16, 100};
  job.training.global_batch = 8;
  return job;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const dtfm::Topology topology = four_devices();
  static const dtfm::Job job = four_layers();
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const dtfm::Plan plan =
        dtfm::parse_plan(dtfm::checked_text(text, "plan.json"), "plan.json", topology, job);
    const std::string written = dtfm::plan_json(topology, job, plan, {});
    const dtfm::Plan again = dtfm::parse_plan(written, "written.json", topology, job);
    if (dtfm::plan_json(topology, job, again, {}) != written) std::abort();
    dtfm::balanced_placement(plan, topology, "plan.json");
  } catch (const dtfm::Error& error) {
    if (error.where() == "written.json") std::abort();
  }
  return 0;
}
