// Reads how long iterations took from the log of a training run.
#pragma once

#include <string>
#include <string_view>

namespace dtfm::io {

/// Returns the median seconds of an iteration. `text` is one of:
///
/// - the output of a trainer with lines of MLPerf (`:::MLLOG {…}`): the time from block_start to block_stop,
///   divided by the growth of samples_count ÷ global_batch_size;
/// - a history of Weights & Biases, as JSON Lines or CSV: the metric by which torchtitan or NeMo report the
///   time of an iteration, or else the time between rows (`_timestamp` or `_runtime`) divided by the
///   iterations between them (the `global_step` of a trainer, or else `_step`).
///
/// Throws Error with a position for what is neither, and if no iteration has a time.
double parse_training_log(std::string_view text, const std::string& file);

}  // namespace dtfm::io
