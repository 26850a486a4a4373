// What a model consists of: parameters, operations and sizes per kind of layer.
#pragma once

#include <string>
#include <vector>

#include "core/model/model.hpp"

namespace dtfm {

/// One layer of a kind. FLOPs and bytes are per sequence (or image).
struct LayerKindSummary {
  std::string name;
  int count = 0, first = 0;  // how many layers have one; index of the first
  double parameters = 0, active_parameters = 0;
  Flops forward, attention;
  Bytes output, activation_memory;
};

struct ModelSummary {
  /// Trained parameters, each matrix once, without the modules that predict further tokens. The active ones
  /// are those that one token uses: all but the experts that it does not visit.
  double parameters = 0, active_parameters = 0;
  double prediction_parameters = 0;  // of the modules that predict further tokens
  Flops forward, attention, head;    // of one sequence, without those modules; parts of `forward`
  ModelInput input = ModelInput::tokens;
  int layers = 0, sequence = 0;
  std::vector<LayerKindSummary> kinds;
};

/// Operations are those of matrix products, 2 per multiply-add. Unlike in a plan, scores are computed for the
/// full matrix of a sequence: neither a causal mask nor a window saves any.
ModelSummary summarize_model(const Model& model, ActivationBytes bytes);

}  // namespace dtfm
