// Measured times of layers, and the roofline constants that fit them best.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/plan/roofline.hpp"
#include "simulator/calibration/measured_run.hpp"

namespace dtfm {

/// A measured time together with what an estimate needs to know.
struct LayerSample {
  enum class Quantity { forward, backward, update };

  std::string profile, model;  // profile: its name in tables
  Gpu gpu;
  Training training;
  Layer layer;
  int micro_batch = 1, tensor = 1;
  Quantity what = Quantity::forward;
  double seconds = 0;
  bool is_held_out = false;  // no constant is fitted to it
};

/// Reads the profiles in configs/profiles that are not estimates, and Sailor's in `data` (the project's
/// shared data; none if it is missing): blocks, heads and embeddings at every size and tensor degree, and
/// updates. From the imported profiles here only blocks are read, because the other layers of the V100's were
/// not measured. Profiles that dtfm measured itself are held out: they test the constants.
///
/// Sailor's precision is not stated. The forward passes of blocks reach 0.85 of a V100's fp32 peak, and on an
/// A100 0.48 of its TF32 peak, which is 3.8 times its fp32 peak; so it is TF32, or fp32 where there is none.
/// A file has the same update time for all its layers. Per byte of Adam's state these times agree between the
/// two models (within 1 %) and between the two GPUs (within 5 %) if they refer to a model of two blocks with
/// both its ends, and differ by a factor of 2.7 if they refer to a block. The last layer of GPT-Neo is a norm
/// without the head, and its embedding takes seven times as long as OPT's, so it must do something else as
/// well: neither is used.
std::vector<LayerSample> read_measured_layers(const std::string& configs, const std::string& data);

/// Whether the constants for 32 bits are fitted to this sample: blocks without tensor parallelism, and
/// updates.
bool is_used_in_fit(const LayerSample& sample);
/// The same for 16 bits.
bool is_used_in_16_bit_fit(const LayerSample& sample);

/// Returns estimated ÷ measured − 1.
double relative_error(const LayerSample& sample, const RooflineConstants& roofline);

/// The constants ≥ 0, and compute ≥ 1, with the least sum of squared relative errors of the samples, whose
/// GPUs are assumed to be of one generation. A constant that they do not depend on keeps the initial value of
/// the fit.
RooflineConstants fit_roofline(const std::vector<LayerSample>& samples);

/// The constants for 16 bits. The runs are simulated, and each set has the same weight, however many runs it
/// has. `compute` and `attention` are those of a generation, or where it has no runs those of all generations
/// together; Blackwell has Hopper's `attention`. The other constants are common. Volta's `compute` is then
/// fitted to samples. `update` is not fitted.
Roofline::ByArchitecture fit_roofline(const std::vector<std::vector<sim::MeasuredRun>>& sets,
                                      const std::vector<LayerSample>& volta, double update);

/// Mean absolute value, and the value farthest from 0.
struct ErrorSummary {
  double mean = 0, worst = 0;
  int count = 0;
};
ErrorSummary summary(const std::vector<LayerSample>& samples, const Roofline& roofline);

/// Whether the sample is a held-out pass through a block.
bool is_held_out_block(const LayerSample& sample);
/// Whether the estimate is the time in which the host launches kernels.
bool is_launch_bound(const LayerSample& sample, const Roofline& roofline);

std::vector<LayerSample> filter_samples(const std::vector<LayerSample>& samples,
                                        const std::function<bool(const LayerSample&)>& holds);

/// Errors of the fitted samples of one profile, forward and backward: with the constants fitted to all
/// samples, to all except this GPU's, and to all except this model's.
struct ProfileErrors {
  std::string profile;
  ErrorSummary fitted, without_gpu, without_model;
};
std::vector<ProfileErrors> errors_by_profile(const std::vector<LayerSample>& samples);

}  // namespace dtfm
