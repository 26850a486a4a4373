// How little an iteration can cost at best, where what counts is seconds times what a second of each device
// costs: money, or the number of devices.
#pragma once

#include <vector>

#include "planner/cost/iteration_time/iteration_time.hpp"

namespace dtfm::cost {

/// No plan of at least `min_devices` devices has a smaller (time of an iteration) × Σ `weight` of its
/// devices, estimated or simulated, if it trains all micro-batches of the job. Devices of infinite weight, or
/// whose times are not known, are in no plan; enough others for a stage must be there.
double min_weighted_time(const IterationModel& model, const std::vector<double>& weight, int min_devices);

/// Seconds that `device`, whose times are known, computes at least in any plan that uses it: one layer of one
/// micro-batch, forward and backward. Its stage may have the degrees of the model.
double min_compute_s(const IterationModel& model, int device);

}  // namespace dtfm::cost
