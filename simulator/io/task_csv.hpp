// When every task of a run was ready, started and finished.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "simulator/observation/observer.hpp"

namespace dtfm::io {

using TextSink = std::function<void(std::string_view)>;

/// `id,state,ready,start,finish`, in the order of the tasks, stretch by stretch; dates in seconds since the
/// start of the run with 17 digits, empty where a task did not get that far. An id is the iteration and the
/// label of the task: `i2 F p0 s3 m17`; in what a departure ended early, a recovery, or a
/// checkpoint, `i2.lost1 …`, `i2.recovery1 …`, `i2.checkpoint1 …`; in the parts before the last of an
/// iteration that went on after a departure, `i2.part1 …`; in one that is done again, `i2.again1 …`: all
/// counted from 1 over the run.
class TaskCsv : public sim::RunObserver {
 public:
  explicit TaskCsv(TextSink sink);
  void on_interval(const sim::RunInterval& run_interval) override;

 private:
  std::string prefix(const sim::RunInterval& run_interval);

  TextSink sink_;
  int lost_count_ = 0, recoveries_ = 0, checkpoints_ = 0, part_count_ = 0;
  int iterations_ = 0, repeat_count_ = 0;  // completed so far; of these, again
};

/// One row of the table; `id` as it is.
std::string format_task_row(std::string_view id, const sim::TaskRecord& record);

}  // namespace dtfm::io
