#include "core/plan/model_state.hpp"

namespace dtfm {

ParameterBytes parameter_bytes(const Training& training) {
  constexpr double fp32_bytes = 4;
  const OptimizerTraits& optimizer = traits(training.optimizer);
  const double quantized = quantized_weight_bytes(training.matmul);
  return {.resident = optimizer.resident + quantized,
          .synced = optimizer.accumulates_fp32 ? fp32_bytes : bytes_per_element(training),
          .checkpointed = optimizer.checkpointed,
          .quantized = quantized,
          .weights = bytes_per_element(training)};
}

}  // namespace dtfm
