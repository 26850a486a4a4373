// How trainers that overlap gradient synchronization with the backward pass divide the gradients.
#pragma once

#include <algorithm>

#include "core/collectives/collective.hpp"
#include "core/plan/execution_config.hpp"

namespace dtfm {

/// Bytes of gradients that a trainer collects before it synchronizes them: `bucket_cap_mb` of PyTorch's
/// DistributedDataParallel, its default.
inline constexpr double gradient_piece_bytes = 25.0 * 1024 * 1024;

/// Whether gradients are synchronized in pieces. A process group synchronizes one piece after another.
inline bool synchronizes_pieces(const ExecutionConfig& execution, GradientSync sync) {
  return execution.overlap && traits(sync).uses_channels;
}

/// The number of pieces of `bytes` of uncompressed gradients per device, at least 1: a layer with less than a
/// piece is synchronized alone. A fraction stands for a piece that other layers share.
inline double gradient_pieces(double bytes) {
  return std::max(1.0, bytes / gradient_piece_bytes);
}

}  // namespace dtfm
