// Times of layers on one GPU, whether measured, imported or estimated.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/model/model.hpp"
#include "core/model/precision.hpp"

namespace dtfm {

/// Statistics of repeated runs. The spread is the 90th minus the 10th percentile; 0 for a single run, or if
/// unknown.
struct Timing {
  double median_s = 0, spread_s = 0;

  friend bool operator==(const Timing&, const Timing&) = default;
};

/// Statistics of samples in seconds, of which there must be at least one; percentiles are interpolated.
Timing timing_of(std::vector<double> samples);

/// Times of one kind of layer (`LayerKinds`) at one micro-batch size, on one of `tensor` devices that share
/// it. Backward excludes recomputation. Update is the optimizer step, which does not depend on the
/// micro-batch; empty if unknown, 0 if it is counted elsewhere.
struct ProfileRow {
  std::string kind;
  int micro_batch = 1, tensor = 1;
  Timing forward, backward;
  std::optional<Timing> update;
  std::optional<double> activation_bytes, peak_bytes;  // kept for the backward; largest allocation

  friend bool operator==(const ProfileRow&, const ProfileRow&) = default;
};

struct LayerProfile {
  enum class Source { measured, imported, estimated };

  std::string gpu;  // its name in the GPU catalogue
  Source source = Source::measured;
  std::string derivation;  // free text: what was run or read, and how the times follow from it
  Precision precision = Precision::fp16;
  std::string model;                 // name of the model
  std::optional<Transformer> shape;  // of a transformer; its number of layers is meaningless
  std::vector<std::pair<std::string, std::string>> software;  // name, version
  bool includes_all_reduces = false;  // times at tensor degrees above 1 contain their all-reduces
  std::vector<ProfileRow> rows;       // per kind and tensor degree: by micro-batch, ascending, distinct

  friend bool operator==(const LayerProfile&, const LayerProfile&) = default;
};

std::string_view name_of(LayerProfile::Source source);

/// Times of one kind of layer at any micro-batch size.
struct ProfiledTime {
  double forward_s = 0, backward_s = 0;
  std::optional<double> update_s;
  bool includes_all_reduces = false;  // of tensor parallelism
  /// The row that was scaled in proportion to the size; nullptr if times are on a line or measured.
  const ProfileRow* scaled_from = nullptr;
  bool extrapolated = false;  // beyond the measured sizes, or at a tensor degree that was not measured
};

/// Interpolates linearly between two measured sizes. Above them, extrapolates the line through the last two,
/// never below 0; below them, and if only one size was measured, scales in proportion to the size. A tensor
/// degree that was not measured gets the times of the largest smaller degree, divided by the ratio of the
/// degrees. Throws Error if no row has the kind; the message lists the kinds that rows have.
ProfiledTime profiled_time(const LayerProfile& profile, std::string_view kind, int micro_batch, int tensor);

}  // namespace dtfm
