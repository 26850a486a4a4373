#include "core/model/precision.hpp"

#include "core/base/kind_table.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm {
namespace {

std::optional<FlopsPerSecond> fp16_peak(const Gpu& gpu) {
  return gpu.peak;
}

/// Tensor cores that support TF32 also support bf16, at the rate of fp16.
std::optional<FlopsPerSecond> bf16_peak(const Gpu& gpu) {
  return gpu.peak_tf32 ? gpu.peak : gpu.peak_fp32;
}

std::optional<FlopsPerSecond> tf32_peak(const Gpu& gpu) {
  return gpu.peak_tf32 ? gpu.peak_tf32 : gpu.peak_fp32;
}

std::optional<FlopsPerSecond> fp32_peak(const Gpu& gpu) {
  return gpu.peak_fp32;
}

constexpr auto precisions = std::to_array<PrecisionTraits>({
    {.kind = Precision::fp16,
     .name = "fp16",
     .bytes_per_element = 2,
     .peak = fp16_peak,
     .peak_keys = "`peak`"},
    {.kind = Precision::bf16,
     .name = "bf16",
     .bytes_per_element = 2,
     .peak = bf16_peak,
     .peak_keys = "`peak_fp32`, nor `peak` with the `peak_tf32` that goes with bf16"},
    {.kind = Precision::tf32,
     .name = "tf32",
     .bytes_per_element = 4,
     .peak = tf32_peak,
     .peak_keys = "`peak_tf32` or `peak_fp32`"},
    {.kind = Precision::fp32,
     .name = "fp32",
     .bytes_per_element = 4,
     .peak = fp32_peak,
     .peak_keys = "`peak_fp32`"},
});
static_assert(has_row_for_each(precisions, Precision::fp32));

}  // namespace

std::span<const PrecisionTraits> precision_table() {
  return precisions;
}

const PrecisionTraits& traits(Precision precision) {
  return row_of(precisions, precision);
}

std::string_view name_of(Precision precision) {
  return traits(precision).name;
}

}  // namespace dtfm
