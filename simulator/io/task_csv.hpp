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
  void see(const sim::Stretch& stretch) override;

 private:
  std::string prefix(const sim::Stretch& stretch);

  TextSink sink_;
  int lost_ = 0, recoveries_ = 0, checkpoints_ = 0, parts_ = 0;
  int iterations_ = 0, repeats_ = 0;  // completed so far; of these, again
};

/// One row of the table; `id` as it is.
std::string task_row(std::string_view id, const sim::TaskRecord& record);

}  // namespace dtfm::io
