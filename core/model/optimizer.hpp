// Optimizers and the memory that they need.
#pragma once

#include <span>
#include <string_view>

namespace dtfm {

/// A number is the bytes per parameter on the device.
enum class Optimizer : unsigned char {
  adam_16,
  adam_18,
  adam_20,
  sgd_12,
  sgd_8,
  host_offload,
  adam_14,       // moments in bf16
  adam_8bit,     // moments in 8 bits
  adafactor_10,  // no first moment, a factored second one
  muon_14,       // one momentum, which is orthogonalized
  adam_offload,  // fp32 weights and moments in host memory, where CPUs update them
  adam_20_fp32,  // gradients in the precision of the training, and accumulated in fp32
  adam_16_fp32   // all in fp32; the computation casts weights to the precision of the training
};

struct OptimizerTraits {
  Optimizer kind;
  std::string_view name;       // in jobs
  double resident;             // bytes per parameter on the device: weights, gradients, optimizer state
  bool accumulates_fp32;       // gradients are accumulated and sent in fp32; otherwise in the job's precision
  double checkpointed;         // bytes per parameter in a checkpoint: fp32 weights and optimizer state
  double local_gradients = 0;  // bytes per parameter of gradients besides those that are sent
  bool is_sgd = false;
  bool orthogonalizes = false;  // the momentum of every matrix of a block (Layer::orthogonalization)
  double host_link_bytes = 0;   // per parameter and update, over the link to the host that computes it
  bool has_profiled_step_time;  // profiles give the times of Adam, whose variants take equally long
};

/// Update time of Adam on the CPUs of a host: Ren et al. (arXiv 2101.06840) state 0.22 s per billion
/// parameters for two 24-core CPUs.
inline constexpr double host_update_s_per_parameter = 0.22e-9;

/// A row for each value, in the order of the enum.
std::span<const OptimizerTraits> optimizer_table();
const OptimizerTraits& traits(Optimizer optimizer);
std::string_view name_of(Optimizer optimizer);
inline bool is_adam(Optimizer optimizer) {
  return traits(optimizer).has_profiled_step_time;
}

}  // namespace dtfm
