#include "simulator/io/task_csv.hpp"

#include <cmath>

#include <fmt/format.h>

namespace dtfm::io {
namespace {

std::string date_text(double seconds) {
  return std::isnan(seconds) ? "" : fmt::format("{:.17g}", seconds);
}

}  // namespace

std::string task_row(std::string_view id, const sim::TaskRecord& record) {
  return fmt::format("{},{},{},{},{}\n", id, name_of(record.state), date_text(record.ready),
                     date_text(record.start), date_text(record.finish));
}

TaskCsv::TaskCsv(TextSink sink) : sink_(std::move(sink)) {
  sink_("id,state,ready,start,finish\n");
}

void TaskCsv::see(const sim::Stretch& stretch) {
  const std::string before = prefix(stretch);
  for (std::size_t i = 0; i < stretch.graph.labels.size(); ++i)
    sink_(task_row(before + sim::label_text(stretch.graph.labels[i]), stretch.replay.tasks[i]));
}

std::string TaskCsv::prefix(const sim::Stretch& stretch) {
  switch (stretch.kind) {
    case sim::Stretch::Kind::iteration:
      break;
    case sim::Stretch::Kind::lost_iteration:
      return fmt::format("i{}.lost{} ", stretch.iteration, ++lost_);
    case sim::Stretch::Kind::recovery:
      return fmt::format("i{}.recovery{} ", stretch.iteration, ++recoveries_);
    case sim::Stretch::Kind::checkpoint:
      return fmt::format("i{}.checkpoint{} ", stretch.iteration, ++checkpoints_);
    case sim::Stretch::Kind::part:
      return fmt::format("i{}.part{} ", stretch.iteration, ++parts_);
  }
  // One that was lost because a checkpoint was older is done again.
  if (stretch.iteration < iterations_) return fmt::format("i{}.again{} ", stretch.iteration, ++repeats_);
  iterations_ = stretch.iteration + 1;
  return fmt::format("i{} ", stretch.iteration);
}

}  // namespace dtfm::io
