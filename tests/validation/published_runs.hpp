// Published iterations of other trainers (data/measured), as a user would describe them: the topology and the
// job from what the publication says, without anything fitted to its times.
#pragma once

#include <string>
#include <vector>

#include "simulator/calibration/measured_run.hpp"

namespace dtfm {

/// Iterations of Megatron-DeepSpeed on one host with A100-40GB, or on several with A100-80GB; layer times are
/// estimated. `file` is vtrain-one-host.csv or vtrain-many-hosts.csv.
std::vector<sim::MeasuredRun> read_vtrain_runs(const std::string& file);

/// Every second iteration of both files, to which the roofline is fitted, if without tensor parallelism or,
/// on many hosts, with tensor-parallel groups inside a host. `data` is the folder of measured/.
std::vector<sim::MeasuredRun> roofline_fit_runs(const std::string& data);
/// The other half of one of these files, with tensor-parallel groups inside a host.
std::vector<sim::MeasuredRun> roofline_test_runs(const std::string& file);

/// Iterations of OPT-350M by Megatron-DeepSpeed on hosts with four GH200; layer times are imported. The time
/// is the mean of two runs. `data` is the folder of measured/ and layer-profiles/.
std::vector<sim::MeasuredRun> read_gh200_runs(const std::string& data);

}  // namespace dtfm
