// The table of operations that torch.distributed.pipelining loads (_PipelineScheduleRuntime._load_csv of
// PyTorch 2.15), for schedules that have no class there.
#pragma once

#include <string>

#include "core/schedule/messaging.hpp"
#include "planner/export/export_bundle.hpp"

namespace dtfm::exporter {

/// A pipeline between two flushes. All are the same.
PipelineShape shape_between_flushes(const ExportBundle& bundle);

/// One row per device of a pipeline with its operations between two flushes, such as `0F0,0F1,0B0,0B1`:
/// stage, kind, micro-batch. I and W are the halves of a backward pass.
std::string schedule_csv(Schedule schedule, const PipelineShape& shape);

}  // namespace dtfm::exporter
