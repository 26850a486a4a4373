// Published iterations of other trainers (data/measured), as a user would describe them: the topology and the
// job from what the publication says, without anything fitted to its times.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "simulator/calibration/measured_run.hpp"

namespace dtfm {

/// Degrees of parallelism. Devices are numbered tensor first, then data, then pipeline.
struct Degrees {
  int tensor = 1, data = 1, pipeline = 1;
};

/// The plan of a job with these degrees whose stages end at `layer_ends`.
Plan published_plan(const Job& job, const Degrees& degrees, const std::vector<int>& layer_ends);
/// A topology by its text, which is read only once.
std::shared_ptr<const Topology> published_topology(const std::string& text);
/// A run with the built-in roofline.
sim::MeasuredRun published_run(std::string name, std::string network,
                               std::shared_ptr<const Topology> topology, Job job, Plan plan, double seconds);

/// Iterations of Megatron-DeepSpeed on one host with A100-40GB, or on several with A100-80GB; layer times are
/// estimated. `file` is vtrain-one-host.csv or vtrain-many-hosts.csv.
std::vector<sim::MeasuredRun> read_vtrain_runs(const std::string& file);

/// Iterations of OPT-350M by Megatron-DeepSpeed on hosts with four GH200; layer times are imported. The time
/// is the mean of two runs. `data` is the folder of measured/ and layer-profiles/.
std::vector<sim::MeasuredRun> read_gh200_runs(const std::string& data);

}  // namespace dtfm
