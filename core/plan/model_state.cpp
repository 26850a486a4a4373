#include "core/plan/model_state.hpp"

namespace dtfm {

ParameterBytes parameter_bytes(const Training& training) {
  constexpr double fp32_bytes = 4;
  const OptimizerTraits& optimizer = traits(training.optimizer);
  const double synced = optimizer.accumulates_fp32 ? fp32_bytes : bytes_per_element(training);
  return {.resident = optimizer.resident,
          .gradients = synced + optimizer.local_gradients,
          .synced = synced,
          .checkpointed = optimizer.checkpointed,
          .weights = bytes_per_element(training)};
}

}  // namespace dtfm
