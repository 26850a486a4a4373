// Work of a chain of layers shared out over unlike devices, at best.
#pragma once

#include <vector>

namespace dtfm::cost {

/// Seconds of a micro-batch, or of the update, by layer.
struct DeviceKindTimes {
  int devices = 0;
  std::vector<double> forward_s, backward_s, update_s;
};

/// Of work whose parts are the layers: on the device that is best at each, but for `single_device_s`.
struct WorkBound {
  std::vector<double> sorted_s;   // smallest first
  std::vector<double> smallest_sums_s;  // of so many smallest layers
  std::vector<double> longest_piece_s;   // of so many pieces of the chain, the longest is no shorter
  double sum_s = 0;
  double single_device_s = 0;  // all of them on one device
};

struct LayerTimesBound {
  WorkBound forward_backward, forward, backward;
  double first_update_s = 0;
};
LayerTimesBound min_layer_times(const std::vector<DeviceKindTimes>& kinds);

/// Weights r of the kinds of devices, and of forward and backward, each of them, and the update
/// Y = Σ over layers l of min over kinds k of r_k t_kl.
///
/// A device that spends s seconds on micro-batches of layers does r s ≥ Σ min_k r_k t_kl of Y. So whatever
/// each of some devices computes, if all of them together compute M micro-batches, one of them is busy for no
/// less than M Y ÷ Σ r of the devices. This is the dual of the linear programme that shares out all layers in
/// any fractions; with the best r it is as large as that.
struct BalancedWork {
  std::vector<double> rates;  // by kind, positive
  double forward_backward = 0, forward = 0, backward = 0, update = 0;
  std::vector<double> forward_backward_prefix;  // each layer, and all
};
BalancedWork balanced_work(const std::vector<DeviceKindTimes>& kinds);

}  // namespace dtfm::cost
