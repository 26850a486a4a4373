// Times of layers on one GPU: measured, imported or estimated, all in one form.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/core/model.hpp"

namespace dtfm {

/// Of repeated runs, in seconds. The spread is the 90th less the 10th percentile; 0: of one run, or not
/// known.
struct Timing {
  double median_s = 0, spread_s = 0;

  friend bool operator==(const Timing&, const Timing&) = default;
};

/// Of samples in seconds, at least one; between two of them where a percentile falls there.
Timing timing_of(std::vector<double> samples);

/// One kind of layer (`LayerKinds`) at one micro-batch size, on one of `tensor` devices that share it.
/// Backward is without what is computed again; update is the optimizer's step, whatever the micro-batch, if
/// it is known (0 is none of its own: it is counted elsewhere).
struct ProfileRow {
  std::string kind;
  int micro_batch = 1, tensor = 1;
  Timing forward, backward;
  std::optional<Timing> update;
  std::optional<double> activation_bytes, peak_bytes;  // kept until the backward; most that was allocated

  friend bool operator==(const ProfileRow&, const ProfileRow&) = default;
};

struct LayerProfile {
  enum class Source { measured, imported, estimated };

  std::string gpu;  // as in the catalogue
  Source source = Source::measured;
  std::string derivation;            // in words: what was run or read, and how it was made of that
  std::string precision;             // as in a job
  std::string model;                 // its name
  std::optional<Transformer> shape;  // of a transformer; its number of layers means nothing
  std::vector<std::pair<std::string, std::string>> software;  // what, version
  std::vector<ProfileRow> rows;  // of a kind and a tensor degree: by micro-batch, each once

  friend bool operator==(const LayerProfile&, const LayerProfile&) = default;
};

std::string_view name_of(LayerProfile::Source source);

/// Seconds of a kind at any micro-batch size. `extrapolated`: outside what was measured.
struct ProfiledTime {
  double forward_s = 0, backward_s = 0;
  std::optional<double> update_s;
  bool extrapolated = false;
};

/// Between two measured sizes on the line through them; above them on the line through the last two, never
/// below 0; below them, and where there is only one, in proportion to the size. A tensor degree that was not
/// measured has the times of the largest smaller one, divided by the ratio. Throws Error where the profile
/// has no such kind, saying what it has.
ProfiledTime profiled_time(const LayerProfile& profile, std::string_view kind, int micro_batch, int tensor);

}  // namespace dtfm
