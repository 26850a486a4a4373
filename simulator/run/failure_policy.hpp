// What a run does when machines have left or come back: who computes from now on. A policy is one function
// and one line of the table in failure_policy.cpp.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "planner/core/plan.hpp"

namespace dtfm::sim {

/// What a policy sees.
struct ClusterState {
  const Plan& plan;                // with the devices that have the places now
  const std::vector<bool>& available;  // of each device
  std::span<const int> spares;     // that may take a place, the first first; some may be gone or have one
  const Plan* initial_plan = nullptr;      // the plan as it was given; nothing: `plan`
  bool iteration_aborted = false;          // a departure has broken off what went on
};

struct Decision {
  Plan plan;                  // who has which place from now on; all pipelines, micro-batches as in `state`
  std::vector<bool> running;  // of each pipeline; none: the run waits for a machine to come back
  bool rolls_back = false;    // all load the last checkpoint
};

/// A new plan on devices that are `there`, of as many micro-batches and the same schedule, for the `running`
/// one, of which some may be gone; nothing where it may stay as it is, or there is none.
using Replanner = std::function<std::optional<Plan>(const Plan& running, const std::vector<bool>& available)>;

struct FailurePolicy {
  std::string_view name, what;
  Decision (*decide)(const ClusterState& state);
  bool resumes_iteration = false;       // who is not hit goes on within the iteration, with more to do (redistribute_micro_batches)
  bool keeps_copies = false;  // every device has the weights of the stage before its own too (redundant_shards)
  bool asks_planner = false;  // a Replanner; where it says nothing, `decide`
};

/// `running` without the pipelines of `plan` of which a device has less than `share` of the median of the
/// `speeds` (of each device of the topology) of all devices that run, of an even number the upper one; as it
/// is where none would be left.
std::vector<bool> exclude_slow_pipelines(const Plan& plan, const std::vector<bool>& running,
                               const std::vector<double>& speeds, double share);

/// The first is the default.
std::span<const FailurePolicy> failure_policies();
/// Throws Error ("did you mean" is for readers) for a name that is not there.
const FailurePolicy& failure_policy(std::string_view name);

/// The pipelines of `plan` that run, with all micro-batches of it: those of the others are dealt to them in
/// proportion to their own, evenly if they have none, by largest remainder, the first pipeline first; of an
/// interleaved schedule, which needs multiples of the number of devices of a pipeline, so many at a time
/// while that can be.
Plan running_plan(const Plan& plan, const std::vector<bool>& running);

/// `plan`, in which the pipelines that are `running` keep their micro-batches and are dealt those of the
/// others, in the same way; the others have none. At least one runs.
Plan redistribute_micro_batches(const Plan& plan, const std::vector<bool>& running);

}  // namespace dtfm::sim
