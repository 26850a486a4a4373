// Reads a table of measured iterations: a CSV file, described in docs/files/calibration.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/roofline.hpp"
#include "simulator/calibration/measured_run.hpp"

namespace dtfm::io {

inline constexpr std::size_t max_runs = 200, max_topologies = 20;  // per table

struct RunsContext {
  const std::shared_ptr<const Topology>& topology;  // for rows that name no topology
  /// The job of rows that name none, which replaces the jobs in plans. docs/files/calibration.md says which
  /// applies if empty.
  const std::optional<Job>& job;
  const Roofline& roofline;
};

/// Reads at most `max_runs` runs, whose rows may name at most `max_topologies` topology files. Runs with the
/// same topology, job and plan share their workload. Throws Error with file:line:column for missing or
/// unknown columns, invalid numbers, unreadable files, and runs that cannot be simulated.
std::vector<sim::MeasuredRun> read_runs(const std::filesystem::path& file, const RunsContext& context);

/// The same for a text; the files that it names are relative to `folder`.
std::vector<sim::MeasuredRun> parse_runs(const std::string& text, const std::string& file,
                                         const std::filesystem::path& folder, const RunsContext& context);

}  // namespace dtfm::io
