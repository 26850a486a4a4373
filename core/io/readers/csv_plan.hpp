// Reads plans from a CSV table with one device and its layers per row.
#pragma once

#include <string>
#include <string_view>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "core/io/readers/device_resolver.hpp"
#include "core/io/text/input_errors.hpp"

namespace dtfm::io {

/// Whether `text` begins with the header of such a table: several cells, at least one of which names a
/// column.
bool is_csv_plan(std::string_view text);

/// Parses a CSV (UTF-8) with a header that names the columns, in any order:
///   device,pipeline,stage,first_layer,last_layer[,micro_batches]
/// Pipelines, stages and layers are numbered from 0. last_layer is inclusive, so that 0,2 are three layers; a
/// stage without layers has last_layer = first_layer − 1. The devices of one stage of one pipeline are its
/// tensor-parallel group, in row order. micro_batches is that of the pipeline and the same in all its rows;
/// without the column, micro-batches are distributed as evenly as possible. Schedule and gradient
/// synchronization are those of the job.
///
/// Adds to `errors`, at file:line:column: cells that are not numbers, devices that are unknown or used twice,
/// gaps in the numbers of pipelines or stages, and layers that are missing, assigned twice or not in the job.
/// If there are errors, the returned plan is not valid. Throws Error for a header without the required
/// columns.
Plan read_csv_plan(std::string_view text, const std::string& file, const Job& job, DeviceResolver& resolver,
                   InputErrors& errors);

}  // namespace dtfm::io
