#include "simulator/io/task_csv.hpp"

#include <cmath>

#include <fmt/format.h>

namespace dtfm::io {
namespace {

std::string format_date(double seconds) {
  return std::isnan(seconds) ? "" : fmt::format("{:.17g}", seconds);
}

}  // namespace

std::string format_task_row(std::string_view id, const sim::TaskRecord& record) {
  return fmt::format("{},{},{},{},{}\n", id, name_of(record.state), format_date(record.ready),
                     format_date(record.start), format_date(record.finish));
}

TaskCsv::TaskCsv(TextSink sink) : sink_(std::move(sink)) {
  sink_("id,state,ready,start,finish\n");
}

void TaskCsv::on_interval(const sim::RunInterval& run_interval) {
  const std::string before = prefix(run_interval);
  for (std::size_t i = 0; i < run_interval.graph.labels.size(); ++i) {
    throw_if_stopped(run_interval.stop, i);
    sink_(format_task_row(before + sim::format_label(run_interval.graph.labels[i]),
                          run_interval.replay.tasks[i]));
  }
}

std::string TaskCsv::prefix(const sim::RunInterval& run_interval) {
  switch (run_interval.kind) {
    case sim::RunInterval::Kind::iteration:
      break;
    case sim::RunInterval::Kind::lost_iteration:
      return fmt::format("i{}.lost{} ", run_interval.iteration, ++lost_count_);
    case sim::RunInterval::Kind::recovery:
      return fmt::format("i{}.recovery{} ", run_interval.iteration, ++recoveries_);
    case sim::RunInterval::Kind::checkpoint:
      return fmt::format("i{}.checkpoint{} ", run_interval.iteration, ++checkpoints_);
    case sim::RunInterval::Kind::part:
      return fmt::format("i{}.part{} ", run_interval.iteration, ++part_count_);
  }
  // An iteration that was rolled back to a checkpoint is repeated.
  if (run_interval.iteration < iterations_)
    return fmt::format("i{}.again{} ", run_interval.iteration, ++repeat_count_);
  iterations_ = run_interval.iteration + 1;
  return fmt::format("i{} ", run_interval.iteration);
}

}  // namespace dtfm::io
