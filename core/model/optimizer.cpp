#include "core/model/optimizer.hpp"

#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

// Checkpoints hold weights in fp32 and, of Adam, two moments in fp32. adam-16 is the accounting of ZeRO
// (arXiv 1910.02054). adam-18 and adam-20 are those of Megatron-LM (docs/user-guide/features/
// dist_optimizer.md): bf16 with fp32 gradients, and fp16 with fp16 gradients, of which the optimizer has a
// copy in fp32. sgd-12 and host-offload are those of Yuan et al. (arXiv 2206.01288).
constexpr auto optimizers = std::to_array<OptimizerTraits>({
    {.kind = Optimizer::adam_16,
     .name = "adam-16",
     .resident = 16,
     .accumulates_fp32 = false,
     .checkpointed = 12,
     .has_profiled_step_time = true},
    {.kind = Optimizer::adam_18,
     .name = "adam-18",
     .resident = 18,
     .accumulates_fp32 = true,
     .checkpointed = 12,
     .has_profiled_step_time = true},
    {.kind = Optimizer::adam_20,
     .name = "adam-20",
     .resident = 20,
     .accumulates_fp32 = false,
     .checkpointed = 12,
     .has_profiled_step_time = true},
    {.kind = Optimizer::sgd_12,
     .name = "sgd-12",
     .resident = 12,
     .accumulates_fp32 = true,
     .checkpointed = 4,
     .has_profiled_step_time = false},
    {.kind = Optimizer::sgd_8,
     .name = "sgd-8",
     .resident = 8,
     .accumulates_fp32 = false,
     .checkpointed = 4,
     .has_profiled_step_time = false},
    {.kind = Optimizer::host_offload,
     .name = "host-offload",
     .resident = 4,
     .accumulates_fp32 = false,
     .checkpointed = 4,
     .has_profiled_step_time = false},
});
static_assert(has_row_for_each(optimizers, Optimizer::host_offload));

}  // namespace

std::span<const OptimizerTraits> optimizer_table() {
  return optimizers;
}

const OptimizerTraits& traits(Optimizer optimizer) {
  return row_of(optimizers, optimizer);
}

std::string_view name_of(Optimizer optimizer) {
  return traits(optimizer).name;
}

}  // namespace dtfm
