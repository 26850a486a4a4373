// Reads plan files from any source and checks them against the topology and the job for which they are meant.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm::io {

/// Returns the text of a plan file (UTF-8). The file is read only once, because it may be a pipe, and both
/// job and plan are parsed from it. Throws Error.
std::string read_plan_text(const std::filesystem::path& file);

/// Parses a plan file. Only `pipelines` is required; the keys that follow from it (the degrees in
/// `parallelism`, `groups`, `ranks`, `unused`) must agree with it if present. Missing micro-batches are
/// distributed as evenly as possible. The settings are those of `execution`; of the plan's `job` and
/// `parallelism`, which older files have instead; or of `job`. Throws Error at file:line:column for text that
/// is not JSON and for settings that contradict `job` (plan_conflicts), and otherwise with the JSON pointer
/// to a device that is unknown or used twice, layers that are not covered exactly once, a pipeline without
/// stages, the fingerprint of another topology, or a period of checkpoints that is not above zero.
Plan parse_plan(std::string_view text, const std::string& file, const Topology& topology, const Job& job);

/// A plan without its topology.
struct StandalonePlan {
  Plan plan;                     // devices are indices into `ids`
  std::vector<std::string> ids;  // of the used devices, then of those that the file lists as unused
};

/// Parses a plan whose topology is not available or has changed. Any device id is accepted, up to the maximum
/// number of devices of a topology, and the fingerprint and settings that contradict `job` are ignored.
/// Otherwise throws Error as parse_plan does.
StandalonePlan parse_standalone_plan(std::string_view text, const std::string& file, const Job& job);

struct PlanWithOpenSettings {
  Plan plan;
  SettingSet undecided;  // settings that neither the file nor the job decides; the plan has default values
  std::optional<double> checkpoint_period_s;  // for scenarios that leave it open; above zero
};
/// The same as parse_plan.
PlanWithOpenSettings parse_plan_with_open_settings(std::string_view text, const std::string& file,
                                                   const Topology& topology, const Job& job);

/// The job in a plan file (key `job`) with the file's `execution`; nullopt if it has none. Throws Error at
/// file:line:column, and if schedule or gradient synchronization in `parallelism` differ from them.
std::optional<Job> parse_plan_job(std::string text, const std::string& file);

/// The memory that a plan file estimates for one of the used devices.
struct EstimatedMemory {
  std::string device;
  Bytes needed, capacity;
};

/// `estimate.memory` of a plan file; empty if the file does not have it. Throws Error if it is not a list of
/// {device, needed_bytes, capacity_bytes}.
std::vector<EstimatedMemory> parse_plan_memory(std::string_view text, const std::string& file);

/// The plan as a balanced placement, which objective comm-cost requires. Throws Error naming `file` for
/// pipelines of unequal depth or with different stages, tensor parallelism, and unused devices.
Placement balanced_placement(const Plan& plan, const Topology& topology, const std::string& file);

}  // namespace dtfm::io
