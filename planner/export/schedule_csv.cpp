#include "planner/export/schedule_csv.hpp"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/export/export_requirements.hpp"

namespace dtfm::exporter {

PipelineShape shape_between_flushes(const ExportBundle& bundle) {
  const int stages = stage_count(bundle);
  return {stages, static_cast<int>(virtual_stages(bundle).size()) / stages, micro_batches_per_flush(bundle),
          planned_orders(bundle.plan.pipelines.front(), bundle.job.execution.schedule)};
}

std::string schedule_csv(Schedule schedule, const PipelineShape& shape) {
  std::string text;
  for (int device = 0; device < shape.devices; ++device) {
    std::vector<std::string> cells;
    for (const Operation& it : operation_order(schedule, shape.position(device), 0)) {
      const char kind = it.kind == Operation::Kind::forward           ? 'F'
                        : it.kind == Operation::Kind::weight_gradient ? 'W'
                        : traits(schedule).splits_backward            ? 'I'
                                                                      : 'B';
      cells.push_back(fmt::format("{}{}{}", device + shape.devices * it.chunk, kind, it.micro_batch));
    }
    text += fmt::format("{}\n", fmt::join(cells, ","));
  }
  return text;
}

}  // namespace dtfm::exporter
