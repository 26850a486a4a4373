// Plans made anywhere, read back and checked against the topology and the job that they claim to be for.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"
#include "planner/core/topology.hpp"

namespace dtfm::io {

/// The text of a plan file, UTF-8; read once, for it may be a pipe, and both job and plan are made from it.
/// Throws Error.
std::string read_plan_text(const std::filesystem::path& file);

/// What a plan file says; only `pipelines` is needed, and what follows from it (`parallelism`'s degrees,
/// `groups`, `ranks`, `unused`) must agree with it where it is given. Missing micro-batches are dealt out as
/// evenly as possible, schedule and gradient sync are the job's. Throws Error: file:line:column for what is
/// not JSON, else the JSON pointer to a device that is unknown or there twice, to layers that are not covered
/// exactly once, to a pipeline without stages, to a fingerprint of another topology.
Plan parse_plan(std::string_view text, const std::string& file, const Topology& topology, const Job& job);

/// A plan by itself, whatever topology it was made for.
struct StandalonePlan {
  Plan plan;                     // devices are indices into `ids`
  std::vector<std::string> ids;  // of devices in use, then of those that the file says are not
};

/// The same for a plan whose topology is not there, or is another one now: devices are what the plan calls
/// so, as many at most as a topology may have, and the fingerprint is not looked at.
StandalonePlan parse_standalone_plan(std::string_view text, const std::string& file, const Job& job);

/// The job that a plan file says it is for (`job`); nothing where it does not. Throws Error at
/// file:line:column, and where `parallelism` has another schedule or gradient sync than the job.
std::optional<Job> parse_plan_job(std::string text, const std::string& file);

/// What a plan file of ours estimates of the memory of a device in use.
struct EstimatedMemory {
  std::string device;
  Bytes needed, capacity;
};

/// `estimate.memory` of a plan file; empty: it says nothing of it. Throws Error as parse_plan where it is no
/// such list.
std::vector<EstimatedMemory> parse_plan_memory(std::string_view text, const std::string& file);

/// The plan as a balanced placement, which objective comm-cost is about. Throws Error naming `file` and what
/// is not balanced: pipelines of unequal depth or with different stages, tensor parallelism, devices left
/// unused.
Placement balanced_placement(const Plan& plan, const Topology& topology, const std::string& file);

}  // namespace dtfm::io
