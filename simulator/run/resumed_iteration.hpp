// Resumes an iteration after a failure, without the pipelines that the failure has affected.
#pragma once

#include <optional>
#include <vector>

#include "core/plan/plan.hpp"
#include "simulator/run/run_devices.hpp"
#include "simulator/run/run_graphs.hpp"
#include "simulator/run/run_record.hpp"

namespace dtfm::sim {

/// The last part of an iteration, in which it was completed or lost.
struct LastPart {
  ReplayedInterval replayed;
  LabelledGraph graph;        // its tasks
  double earlier_work_s = 0;  // device-seconds computed in earlier parts that are not lost
};

/// Resumes the current iteration of `graphs`, of the `running` pipelines of `plan`, after each failure,
/// starting with that which has `aborted` it, until it is completed, or lost because no pipeline is left.
/// Pipelines that do not resume it are not `running` any more. Returns nullopt if the run is interrupted or
/// over. Throws WorkStopped.
std::optional<LastPart> resume_iteration(const ReplayedInterval& aborted, const Plan& plan,
                                         std::vector<bool>& running, RunGraphs& graphs, RunDevices& devices,
                                         RunRecord& record);

}  // namespace dtfm::sim
