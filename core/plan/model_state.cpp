#include "core/plan/model_state.hpp"

namespace dtfm {

ParameterBytes parameter_bytes(const Training& training) {
  constexpr double fp32_bytes = 4;
  const OptimizerTraits& optimizer = traits(training.optimizer);
  return {optimizer.resident, optimizer.accumulates_fp32 ? fp32_bytes : bytes_per_element(training),
          optimizer.checkpointed, bytes_per_element(training)};
}

}  // namespace dtfm
