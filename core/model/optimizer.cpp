#include "core/model/optimizer.hpp"

#include "core/base/kind_table.hpp"

namespace dtfm {
namespace {

// Checkpoints hold weights in fp32 and, of Adam, two moments in fp32. adam-16 is the accounting of ZeRO
// (arXiv 1910.02054). adam-18 and adam-20 are those of Megatron-LM (docs/user-guide/features/
// dist_optimizer.md): bf16 with fp32 gradients, and fp16 with fp16 gradients, of which the optimizer has a
// copy in fp32. sgd-12 and host-offload are those of Yuan et al. (arXiv 2206.01288).
//
// The others have bf16 weights, fp32 gradients and fp32 master weights, 10 bytes, and: adam-14 both moments
// in bf16 (Megatron-LM, --exp-avg-dtype, --exp-avg-sq-dtype); adam-8bit both in 8 bits with an fp32 scale per
// 256 numbers (Dettmers et al., arXiv 2110.02861; bitsandbytes); adafactor-10 a factored second moment, a row
// and a column per matrix, which is not counted (Shazeer and Stern, arXiv 1804.04235); muon-14 a momentum in
// fp32 (Jordan et al., 2024, kellerjordan.github.io/posts/muon; Liu et al., arXiv 2502.16982). Muon trains
// embedding, head and vectors by AdamW, which has one moment more; they are counted like the matrices.
// adam-offload keeps bf16 weights and fp32 gradients on the device, and moves fp32 gradients to the host and
// fp32 weights back (megatron/core/optimizer/cpu_offloading/hybrid_optimizer.py, without overlap).
// adam-20-fp32 keeps bf16 gradients in the buckets of PyTorch's DDP, and accumulates them in fp32
// (nanotron/optim/gradient_accumulator.py). adam-16-fp32 is that of PyTorch's FSDP and autocast, which keep
// weights in fp32 only and cast them for each use.
constexpr double moments_8bit = 2 * (1 + 4.0 / 256);

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
     .is_sgd = true,
     .has_profiled_step_time = false},
    {.kind = Optimizer::sgd_8,
     .name = "sgd-8",
     .resident = 8,
     .accumulates_fp32 = false,
     .checkpointed = 4,
     .is_sgd = true,
     .has_profiled_step_time = false},
    {.kind = Optimizer::host_offload,
     .name = "host-offload",
     .resident = 4,
     .accumulates_fp32 = false,
     .checkpointed = 4,
     .has_profiled_step_time = false},
    {.kind = Optimizer::adam_14,
     .name = "adam-14",
     .resident = 14,
     .accumulates_fp32 = true,
     .checkpointed = 8,
     .has_profiled_step_time = true},
    {.kind = Optimizer::adam_8bit,
     .name = "adam-8bit",
     .resident = 2 + 4 + 4 + moments_8bit,
     .accumulates_fp32 = true,
     .checkpointed = 4 + moments_8bit,
     .has_profiled_step_time = true},
    {.kind = Optimizer::adafactor_10,
     .name = "adafactor-10",
     .resident = 10,
     .accumulates_fp32 = true,
     .checkpointed = 4,
     .has_profiled_step_time = false},
    {.kind = Optimizer::muon_14,
     .name = "muon-14",
     .resident = 14,
     .accumulates_fp32 = true,
     .checkpointed = 8,
     .orthogonalizes = true,
     .has_profiled_step_time = false},
    {.kind = Optimizer::adam_offload,
     .name = "adam-offload",
     .resident = 6,
     .accumulates_fp32 = true,
     .checkpointed = 12,
     .host_link_bytes = 8,
     .has_profiled_step_time = false},
    {.kind = Optimizer::adam_20_fp32,
     .name = "adam-20-fp32",
     .resident = 20,
     .accumulates_fp32 = true,
     .checkpointed = 12,
     .local_gradients = 2,
     .has_profiled_step_time = true},
    {.kind = Optimizer::adam_16_fp32,
     .name = "adam-16-fp32",
     .resident = 16,
     .accumulates_fp32 = true,
     .checkpointed = 12,
     .has_profiled_step_time = true},
});
static_assert(has_row_for_each(optimizers, Optimizer::adam_16_fp32));

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
