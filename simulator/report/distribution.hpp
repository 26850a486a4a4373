// Summary statistics of many values, such as iteration times or the results of samples.
#pragma once

#include <span>
#include <vector>

namespace dtfm::sim {

struct Distribution {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0, min = 0, max = 0;
};

/// The quantile of ascending values for a share from 0 to 1: the value at position share · (n − 1), counted
/// from 0, interpolated linearly (definition 7 of Hyndman and Fan, Sample quantiles in statistical packages,
/// 1996; the default of NumPy and R). Requires at least one value.
double quantile(std::span<const double> sorted, double share);

/// All statistics are 0 if there are no values. The mean sums the values in their given order.
Distribution distribution(std::vector<double> values);

}  // namespace dtfm::sim
