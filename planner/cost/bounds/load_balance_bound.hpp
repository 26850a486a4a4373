// Lower bounds on the work of a chain of layers that is balanced over heterogeneous devices.
#pragma once

#include <vector>

namespace dtfm::cost {

struct DeviceKindTimes {
  int devices = 0;
  std::vector<double> forward_s, backward_s;  // by layer, per micro-batch
  double first_update_s = 0;                  // of the first layer, per iteration
};

/// Bounds on work that consists of layers, each on the device that is fastest for it.
struct WorkBound {
  std::vector<double> before_s;         // of the first n layers, by n
  std::vector<double> smallest_sums_s;  // of the n smallest layers, by n
  double largest_s = 0, sum_s = 0;
};

struct LayerTimesBound {
  WorkBound forward_backward, forward, backward;
  double first_update_s = 0;
};
LayerTimesBound min_layer_times(const std::vector<DeviceKindTimes>& kinds);

/// Weights r of the kinds of devices, and the weighted work of backward passes, and of both passes: Y = Σ
/// over layers l of min over kinds k of r_k t_kl.
///
/// A device that spends s seconds on layers of micro-batches does at most r s of Y, because r s ≥ Σ min_k r_k
/// t_kl. So however M micro-batches are divided among some devices, one of them is busy for at least M Y ÷ Σ
/// r of these devices. This is the dual of the linear program that distributes all layers in arbitrary
/// fractions; with optimal r the two values agree.
struct BalancedWork {
  std::vector<double> rates;  // r, by kind, positive
  double forward_backward = 0, backward = 0;
};
BalancedWork balanced_work(const std::vector<DeviceKindTimes>& kinds);

}  // namespace dtfm::cost
