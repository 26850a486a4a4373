// Reads plan files from any source and checks them against the topology and the job for which they are meant.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "core/cluster/topology.hpp"
#include "core/io/text/json_reader.hpp"

namespace dtfm::io {

/// Returns the text of a plan file (UTF-8). Throws Error.
std::string read_plan_text(const std::filesystem::path& file);

/// A plan from any source.
struct PlanAndNotes {
  Plan plan;
  std::vector<std::string> notes;                  // for the user
  SettingSet undecided;                            // settings that neither the file nor the job decides
  std::optional<double> checkpoint_period_s = {};  // for scenarios that leave it open; above zero
};

/// A plan without its topology.
struct StandalonePlan {
  Plan plan;                     // devices are indices into `ids`
  std::vector<std::string> ids;  // of the used devices, then of those that the file lists as unused
};

/// The memory that a plan file estimates for one of the used devices.
struct EstimatedMemory {
  std::string device;
  Bytes needed, capacity;
};

/// A plan file, parsed once. All parts throw Error with the JSON pointer to what is wrong.
class PlanFile {
 public:
  /// `text` is UTF-8. Throws Error at file:line:column for text that is not JSON.
  PlanFile(std::string_view text, std::string path);

  const std::string& path() const { return path_; }

  bool has_job() const;
  /// The job (key `job`) with the file's `execution`; nullopt if the file has none. Throws Error if the
  /// execution is not among the values that the job lists, or if schedule or gradient synchronization in
  /// `parallelism` differ from it.
  std::optional<Job> job() const;

  /// The plan, without notes. Only `pipelines` is required; the keys that follow from it (the degrees in
  /// `parallelism`, `groups`, `ranks`, `unused`) must agree with it if present. Missing micro-batches are
  /// distributed as evenly as possible. The settings are those of `execution`; of the plan's `job` and
  /// `parallelism`, which older files have instead; or of `job`. Throws Error for settings that contradict
  /// `job` (plan_conflicts), a device that is unknown or used twice, layers that are not covered exactly
  /// once, `virtual_layers` that do not make up those of their stage, a pipeline without stages, the
  /// fingerprint of another topology, or a period of checkpoints that is not above zero.
  PlanAndNotes plan(const Topology& topology, const Job& job) const;

  /// A plan whose topology is not available or has changed. Any device id is accepted, up to the maximum
  /// number of devices of a topology, and the fingerprint and settings that contradict `job` are ignored.
  /// Otherwise throws Error as `plan` does.
  StandalonePlan standalone_plan(const Job& job) const;

  /// Throws Error for settings that contradict `job`, as `plan` does.
  void check_no_conflict(const Job& job) const;

  /// `estimate.memory`; empty if the file does not have it. Throws Error if it is not a list of {device,
  /// needed_bytes, capacity_bytes}.
  std::vector<EstimatedMemory> memory() const;

 private:
  JsonCursor root() const;

  std::string path_;
  std::shared_ptr<const nlohmann::json> json_;
};

}  // namespace dtfm::io
