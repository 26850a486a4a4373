// Many numbers in a few: how the durations of iterations, or the results of samples, are told.
#pragma once

#include <span>
#include <vector>

namespace dtfm::sim {

struct Distribution {
  double mean = 0, p50 = 0, p95 = 0, p99 = 0, min = 0, max = 0;
};

/// The value that a share of the sorted values, 0 to 1, lies below: at position share · (n − 1), counted from
/// 0, between two values in proportion (definition 7 of Hyndman and Fan, Sample quantiles in statistical
/// packages, 1996; the default of NumPy and R). Expects at least one value.
double quantile(std::span<const double> sorted, double share);

/// All zero for no values. Values are added up in their order.
Distribution distribution(std::vector<double> values);

}  // namespace dtfm::sim
