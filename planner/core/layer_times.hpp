// Seconds that a layer of the job takes on a device: the one place where profiles and estimates become times.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/core/job.hpp"
#include "planner/core/layer_profile.hpp"
#include "planner/core/roofline.hpp"
#include "planner/core/topology.hpp"

namespace dtfm {

/// Of one micro-batch; the update, of an iteration.
struct LayerTime {
  double forward_s = 0, backward_s = 0, update_s = 0;  // backward with what is computed again
  double tied_update_s = 0;  // of the update, that of a copy which is not there beside the first layer
};

/// Would the GPU compute more than its highest peak, if forward and backward of a micro-batch on one of
/// `tensor` devices took so long? Then not all of it was measured, or it was another layer.
bool is_beyond_peak(const Gpu& gpu, const Layer& kind, int micro_batch, int tensor, double seconds);

/// For every GPU of the topology: the job's profile of it, else an estimate (the job's `efficiency`, else the
/// roofline).
class LayerTimes {
 public:
  /// `tensors`: the degrees that will be asked for. Throws Error for a profile that is of another precision
  /// or of a transformer of other sizes, or that cannot tell the layers apart.
  LayerTimes(const Job& job, const Topology& topology, const Roofline& roofline, std::vector<int> tensor_degrees);

  /// Layer of the chain on `device` (index into Topology::devices), one of `tensor` that share it.
  /// Recomputation `full` adds the forward of all kinds that compute, but the head, to the backward,
  /// `selective` the attention core's share of it. Throws Error where the time cannot be known: no GPU given,
  /// no profile of it and no peak, or a profile without the layer.
  LayerTime of(int layer, int device, int tensor) const;

  /// What a reader of the numbers on these devices should know: GPUs with neither profile nor efficiency,
  /// profiles that may be of another model, times outside of what was measured or that no GPU of this kind
  /// can reach, optimizer's steps that are not known or another optimizer's, tensor degrees that no trainer
  /// runs.
  std::vector<std::string> notes(std::span<const int> devices) const;

 private:
  /// Of all layers of one GPU at one tensor degree; an empty list and the reason where they cannot be known.
  struct Times {
    std::vector<LayerTime> by_kind;
    std::vector<std::string> extrapolated, beyond_peak;  // names of kinds
    bool has_unknown_updates = false;                         // of layers with parameters; they are taken as 0
    std::string error;
  };
  Times gpu_times(const Gpu& gpu, int tensor, const Roofline& roofline) const;

  const Job& job_;
  const Topology& topology_;
  LayerKinds kinds_;
  std::vector<int> tensor_degrees_;
  std::vector<std::vector<Times>> times_;  // [GPU][index of the tensor degree]
};

}  // namespace dtfm
