// Latency and bandwidth of a link whose rate was measured for several message sizes.
#pragma once

#include <optional>
#include <span>

#include "core/base/units.hpp"

namespace dtfm::io {

/// A message of `size` took size ÷ rate seconds.
struct MeasuredRate {
  Bytes size;
  BitsPerSecond rate;
};

struct LinkTime {
  Seconds latency;
  BitsPerSecond bandwidth;
};

/// Minimizes the sum of the squared relative errors of the model time = latency + size ÷ bandwidth (Hockney,
/// Parallel Computing 20, 1994) with latency ≥ 0. The largest of the `rates` must have at least twice the
/// size of the smallest. Returns nullopt if the fitted time does not grow with the size.
std::optional<LinkTime> fit_link_time(std::span<const MeasuredRate> rates);

}  // namespace dtfm::io
