// Plans as a table: who computes which layers, a device a line.
#pragma once

#include <string>
#include <string_view>

#include "planner/core/job.hpp"
#include "planner/core/plan.hpp"
#include "planner/io/readers/device_resolver.hpp"
#include "planner/io/text/input_errors.hpp"

namespace dtfm::io {

/// Whether a text begins with the header of such a table: at least one cell of several names a column.
bool is_csv_plan(std::string_view text);

/// A CSV with a header that names the columns, in any order:
///   device,pipeline,stage,first_layer,last_layer[,micro_batches]
/// Pipelines, stages and layers are numbered from 0. last_layer is the last layer itself, so that 0,2 are
/// three layers; a stage without layers ends one before it begins. The devices of one stage of one pipeline
/// are its tensor-parallel group, in the order of their lines. micro_batches is of the pipeline, the same in
/// all its lines; without the column they are dealt out as evenly as possible. Schedule and gradient sync are
/// the job's. `text` is UTF-8.
///
/// Adds to `faults`, at file:line:column: cells that are no numbers, devices that are unknown or used twice,
/// numbers of pipelines or stages that are left out, layers that are missing, there twice or not in the job.
/// With a fault, what comes back is no plan. Throws Error for a header without the columns.
Plan read_csv_plan(std::string_view text, const std::string& file, const Job& job, DeviceResolver& resolver,
                   InputErrors& errors);

}  // namespace dtfm::io
