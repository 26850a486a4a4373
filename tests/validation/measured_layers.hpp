// Measured times of layers, and the constants of the roofline that fit them best.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "planner/core/roofline.hpp"

namespace dtfm {

/// One measured time beside what an estimate needs to know.
struct LayerSample {
  enum class Quantity { forward, backward, update };

  std::string profile, model;  // profile: its name in tables
  Gpu gpu;
  Training training;
  Layer layer;
  int micro_batch = 1, tensor = 1;
  Quantity what = Quantity::forward;
  double seconds = 0;
};

/// Of the profiles in configs/profiles that are not estimates, and of Sailor's in `data` (the project's
/// shared data; none where it is absent): blocks, heads and embeddings at every size and tensor degree, and
/// updates. Of the imported profiles here blocks alone: nobody measured the other layers of a V100's.
///
/// Sailor's precision is not stated. The forwards of blocks reach 0.85 of a V100's fp32 peak, and on an A100
/// 0.48 of its TF32 peak, which is 3.8 of its fp32 peak: so TF32 it is, or fp32 where there is none. A file
/// has the same update for all its layers; per byte of Adam's state they agree between the two models (within
/// 1 %) and between the two GPUs (within 5 %) if they are of a model of two blocks with both its ends, and
/// are 2.7 apart if they are of a block. The last layer of GPT-Neo is a norm without the head, and its
/// embedding takes seven times as long as OPT's, so it must do something else as well: neither is used.
std::vector<LayerSample> read_measured_layers(const std::string& configs, const std::string& data);

/// What the constants are fitted to: blocks without tensor parallelism, and updates.
bool is_used_in_fit(const LayerSample& sample);

/// Estimated ÷ measured − 1.
double relative_error(const LayerSample& sample, const Roofline& roofline);

/// The constants ≥ 0 with the least sum of squared relative errors. The estimate is linear in them, so this
/// is non-negative least squares. A constant that no sample says anything about is 0.
Roofline fit_roofline(const std::vector<LayerSample>& samples);

/// Mean of the absolute values, and the value that is farthest from 0.
struct ErrorSummary {
  double mean = 0, worst = 0;
  int count = 0;
};
ErrorSummary summary(const std::vector<LayerSample>& samples, const Roofline& roofline);

std::vector<LayerSample> filter_samples(const std::vector<LayerSample>& samples,
                                       const std::function<bool(const LayerSample&)>& holds);

/// Of the fitted samples of one profile, forwards and backwards: with the constants fitted to all, to all but
/// this GPU's, and to all but this model's.
struct ProfileErrors {
  std::string profile;
  ErrorSummary fitted, without_gpu, without_model;
};
std::vector<ProfileErrors> errors_by_profile(const std::vector<LayerSample>& samples);

}  // namespace dtfm
