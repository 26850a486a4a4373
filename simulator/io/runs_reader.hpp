// A user's table of measured iterations: CSV, described in simulator/calibration/README.md.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "planner/core/roofline.hpp"
#include "simulator/calibration/measured_run.hpp"

namespace dtfm::io {

inline constexpr std::size_t max_runs = 200;  // of a table

struct RunsContext {
  const std::shared_ptr<const Topology>& topology;
  const std::optional<Job>&
      job;  // of rows that name none; in place of the jobs in plans; nothing: see README
  const Roofline& roofline;
};

/// The runs of a table, at most `max_runs`. Runs of the same job and plan share their workload. Throws Error
/// at file:line:column for columns that there are not, numbers that are none, files that cannot be read, and
/// runs that cannot be simulated.
std::vector<sim::MeasuredRun> read_runs(const std::filesystem::path& file, const RunsContext& context);

/// The same of a text; `folder` is where the files lie that it names.
std::vector<sim::MeasuredRun> parse_runs(const std::string& text, const std::string& file,
                                    const std::filesystem::path& folder, const RunsContext& context);

}  // namespace dtfm::io
