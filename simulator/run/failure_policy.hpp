// Failure policies: which devices compute after devices have left or joined. A policy is one value of
// FailurePolicy, one function, and one row of the table in failure_policy.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

/// The input of a policy.
struct ClusterState {
  const Plan& plan;                    // the plan with the devices that are assigned now
  const std::vector<bool>& available;  // [device]
  std::span<const int> spares;         // in order of preference; may be unavailable or already assigned
  const Plan* initial_plan = nullptr;  // the plan as it was given; null: `plan`
  const Problem* problem = nullptr;    // of the plan; null: every device has enough memory
};

struct Decision {
  Plan plan;                  // all pipelines with the devices assigned from now on; same micro-batches
  std::vector<bool> running;  // [pipeline]; if none is running, the run waits for a device to join
};

/// Returns a new plan on `available` devices that replaces `running`, some of whose devices may be
/// unavailable. It has the same schedule and the same total number of micro-batches. Empty if the plan need
/// not change or no plan was found.
using Replanner = std::function<std::optional<Plan>(const Plan& running, const std::vector<bool>& available)>;

struct FailurePolicyTraits {
  FailurePolicy kind;
  std::string_view name;
  Decision (*decide)(const ClusterState& state);
  /// Unaffected pipelines continue the iteration and take over micro-batches (redistribute_micro_batches).
  bool resumes_iteration = false;
  /// Every device also holds the weights of the previous stage (redundant_shards).
  bool keeps_copies = false;
  /// After a failure all devices load the last checkpoint.
  bool loads_checkpoint = false;
  /// Asks a Replanner first; if that returns nothing, `decide` decides.
  bool asks_planner = false;
};

/// Returns `running` without the slow pipelines of `plan`: those with a device whose speed is less than
/// `share` × the median speed of all running devices (the upper median for an even number). `speeds` is
/// indexed by device of the topology. Returns `running` unchanged if no pipeline would be left.
std::vector<bool> exclude_slow_pipelines(const Plan& plan, const std::vector<bool>& running,
                                         const std::vector<double>& speeds, double share);

/// A row for each value, in the order of the enum.
std::span<const FailurePolicyTraits> failure_policy_table();
const FailurePolicyTraits& traits(FailurePolicy policy);
std::string_view name_of(FailurePolicy policy);

/// Which devices, of `count`, have a slot in the pipelines of `plan` that are set in `pipelines`.
std::vector<bool> devices_of(const Plan& plan, const std::vector<bool>& pipelines, std::size_t count);

/// The running pipelines of `plan`, with all its micro-batches. Those of the other pipelines are distributed
/// in proportion to the running pipelines' own (evenly if these have none) by largest remainder; ties go to
/// earlier pipelines. Interleaved schedules need multiples of the number of devices of a pipeline, so their
/// micro-batches are distributed in units of that number if the total permits it.
Plan running_plan(const Plan& plan, const std::vector<bool>& running);

/// Returns `plan` with the micro-batches of the pipelines that are not running redistributed in the same way.
/// Running pipelines keep their own micro-batches; the others get none. At least one pipeline must run.
Plan redistribute_micro_batches(const Plan& plan, const std::vector<bool>& running);

}  // namespace dtfm::sim
