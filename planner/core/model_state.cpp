#include "planner/core/model_state.hpp"

#include <string_view>

#include <fmt/format.h>

#include "planner/core/error.hpp"

namespace dtfm {
namespace {

struct Preset {
  std::string_view name;
  double resident;
  bool fp32_gradients;  // fp32
  double checkpointed;
};

/// Adam saves fp32 weights and two moments, SGD the weights. ZeRO's accounting (arXiv 1910.02054) is adam-16,
/// Megatron-LM's are adam-18 (bf16) and adam-20 (fp16); sgd-12 and host-offload are those of Yuan et al.
constexpr Preset presets[] = {{"adam-16", 16, false, 12}, {"adam-18", 18, true, 12},
                              {"adam-20", 20, true, 12},  {"sgd-12", 12, true, 4},
                              {"sgd-8", 8, false, 4},     {"host-offload", 4, false, 4}};

}  // namespace

ParameterBytes parameter_bytes(const Training& training) {
  for (const Preset& preset : presets)
    if (preset.name == training.optimizer)
      return {preset.resident, preset.fp32_gradients ? 4 : bytes_per_element(training), preset.checkpointed};
  throw Error("", fmt::format("there is no optimizer `{}`", training.optimizer));
}

}  // namespace dtfm
