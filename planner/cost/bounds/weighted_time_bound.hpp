// Lower bounds for objectives that weight time by the devices in use: their prices, or their number.
#pragma once

#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// Returns a bound that no plan with at least `min_devices` devices beats, estimated or simulated, on
/// (iteration time) × Σ `weight` of its devices, if it trains all micro-batches of the job. Devices of
/// infinite weight or unknown layer times are excluded; the others must suffice for one stage.
double min_weighted_time(const IterationModel& model, const std::vector<double>& weight, int min_devices);

/// Returns the least compute time of `device` in any plan that uses it, in s: forward and backward of one
/// layer for one micro-batch, at the best tensor degree of the model. The device's layer times must be known.
double min_compute_s(const IterationModel& model, int device);

}  // namespace dtfm::cost
