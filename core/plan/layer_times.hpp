// Seconds that a layer of the job takes on a device. Only LayerTimes turns profiles and estimates into times.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/model/layer_profile.hpp"
#include "core/plan/problem.hpp"
#include "core/plan/stage_mesh.hpp"

namespace dtfm {

/// Forward and backward per micro-batch; update per iteration.
struct LayerTime {
  double forward_s = 0, backward_s = 0, update_s = 0;  // backward includes recomputation
  /// Part of `update_s` for a copy of the first layer's parameters; a stage with the first layer has no such
  /// copy.
  double tied_update_s = 0;
  /// Part of `backward_s` for the gradients of the parameters.
  double weight_gradient_s = 0;
  /// Parts of `forward_s` and `backward_s` during which keys and values of other devices may arrive.
  double hidden_forward_s = 0, hidden_backward_s = 0;
};

/// Returns whether the GPU would exceed its highest peak if forward and backward of a micro-batch on one of
/// `tensor` devices took `seconds`: the measurement is then incomplete or of another layer.
bool is_beyond_peak(const Gpu& gpu, const Layer& kind, int micro_batch, int tensor, double seconds);

/// The bandwidth of the GPU's host link. Throws Error if it is unknown; `time` names what cannot be estimated
/// without it, as in "the update time of optimizer adam-offload".
BitsPerSecond required_host_link(const Gpu& gpu, std::string_view time);

/// The job's profile of this GPU; nullptr if there is none, or if it is in a precision that the job's target
/// does not run, so that the job has another one.
const LayerProfile* profile_of(const Job& job, const Gpu& gpu);

/// Layer times with the micro-batch and the recomputation of an execution, for every GPU of the topology:
/// from the job's profile of it, else an estimate (by the job's `efficiency`, else by the roofline). All are
/// multiplied by the calibrated compute scale, but the time to launch kernels by the launch scale.
class LayerTimes {
 public:
  /// `stage_sizes` are the numbers of devices that will be requested. `problem` must outlive this. Throws
  /// Error for a profile with another precision or of a transformer with other sizes, or one that cannot
  /// distinguish the layers.
  LayerTimes(const Problem& problem, const ExecutionConfig& execution, std::vector<int> stage_sizes);

  /// Returns the time of a layer of the chain on `device` (index into Topology::devices), one of `devices`
  /// that share it. The backward includes what recomputation repeats of the forward, unless the layer is not
  /// `recomputed` (ExecutionConfig::recompute_layers). The update is that of all parameters that the device
  /// has, or with a sharded optimizer that of an equal part of the layer.
  /// Throws Error if the time cannot be determined: no GPU given, neither a profile of it nor a peak, or a
  /// profile without the layer.
  LayerTime of(int layer, int device, int devices, bool recomputed = true) const;
  /// Whether the times of so many devices like this one contain the all-reduces between them.
  bool includes_all_reduces(int device, int devices) const;

  /// Returns notes on the reliability of times on these devices: GPUs with neither profile nor efficiency,
  /// profiles that may be of another model, times outside of the measured range or faster than the GPU's peak
  /// allows, optimizer steps that are unknown or of another optimizer, and tensor degrees that no trainer
  /// supports.
  std::vector<std::string> notes(std::span<const int> devices) const;

 private:
  /// Times of all layers on one GPU in stages of one size; an empty list and the reason in `error` if they
  /// cannot be determined.
  struct Times {
    std::vector<LayerTime> by_kind, kept_by_kind;        // the latter of layers that are not recomputed
    std::vector<std::string> extrapolated, beyond_peak;  // names of kinds
    bool includes_all_reduces = false;
    bool has_unknown_updates = false;  // for layers with parameters; unknown updates count as 0
    std::string error;
  };
  void scale_by_roofline(ProfiledTime& time, const Gpu& gpu, const Layer& kind, const StageMesh& mesh,
                         const RooflineConstants& estimated) const;
  ProfiledTime profiled_on_mesh(const LayerProfile& profile, const Gpu& gpu, const Layer& kind,
                                const StageMesh& mesh, const RooflineConstants& estimated) const;
  double host_update_s(const Gpu& gpu) const;
  Times gpu_times(const Gpu& gpu, int devices, const Problem& problem) const;
  const Times& times_of(int device, int devices) const;

  const Job& job_;
  const ExecutionConfig execution_;
  const Topology& topology_;
  LayerKinds kinds_;
  std::vector<int> stage_sizes_;
  std::vector<std::vector<Times>> times_;  // [GPU][index of the size]
};

}  // namespace dtfm
