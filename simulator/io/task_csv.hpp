// Writes a CSV table of the times at which every task of a run was ready, started and finished.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "simulator/observation/observer.hpp"

namespace dtfm::io {

using TextSink = std::function<void(std::string_view)>;

/// Columns `id,state,ready,start,finish`; rows in task order, interval by interval. Times are seconds since
/// the start of the run with 17 digits, empty for what a task did not reach. An id consists of the iteration
/// and the label of the task, such as `i2 F p0 s3 m17`. Other intervals than whole iterations have a suffix,
/// numbered from 1 over the run: `i2.lost1 …` for an aborted iteration, `i2.recovery1 …`, `i2.checkpoint1 …`,
/// `i2.part1 …` for a part before the last of a resumed iteration, `i2.again1 …` for a repeated iteration.
class TaskCsv : public sim::RunObserver {
 public:
  explicit TaskCsv(TextSink sink);
  void on_interval(const sim::RunInterval& run_interval) override;

 private:
  std::string prefix(const sim::RunInterval& run_interval);

  TextSink sink_;
  int lost_count_ = 0, recoveries_ = 0, checkpoints_ = 0, part_count_ = 0;
  int iterations_ = 0, repeat_count_ = 0;  // iterations completed so far, and how many of them were repeats
};

/// Returns one row of the table. Writes `id` unchanged, without quotes.
std::string format_task_row(std::string_view id, const sim::TaskRecord& record);

}  // namespace dtfm::io
