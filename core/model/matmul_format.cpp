#include "core/model/matmul_format.hpp"

#include "core/base/kind_table.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm {
namespace {

std::optional<FlopsPerSecond> fp8_peak(const Gpu& gpu) {
  return gpu.peak_fp8;
}

std::optional<FlopsPerSecond> fp4_peak(const Gpu& gpu) {
  return gpu.peak_fp4;
}

constexpr double fp32_bytes = 4;

constexpr auto formats = std::to_array<MatmulFormatTraits>({
    {.kind = MatmulFormat::precision, .name = "precision"},
    {.kind = MatmulFormat::fp8,
     .name = "fp8",
     .peak = fp8_peak,
     .peak_key = "peak_fp8",
     .bytes = 1,
     .weight_bytes = 1},
    {.kind = MatmulFormat::fp8_blockwise,
     .name = "fp8-blockwise",
     .peak = fp8_peak,
     .peak_key = "peak_fp8",
     .bytes = 1 + fp32_bytes / 128,
     .weight_bytes = 1 + fp32_bytes / (128 * 128)},
    {.kind = MatmulFormat::mxfp8,
     .name = "mxfp8",
     .peak = fp8_peak,
     .peak_key = "peak_fp8",
     .bytes = 1 + 1.0 / 32,
     .weight_bytes = 1 + 1.0 / 32},
    {.kind = MatmulFormat::nvfp4,
     .name = "nvfp4",
     .peak = fp4_peak,
     .peak_key = "peak_fp4",
     .bytes = 0.5 + 1.0 / 16,
     .weight_bytes = 0.5 + 1.0 / 16},
});
static_assert(has_row_for_each(formats, MatmulFormat::nvfp4));

}  // namespace

std::span<const MatmulFormatTraits> matmul_format_table() {
  return formats;
}

const MatmulFormatTraits& traits(MatmulFormat format) {
  return row_of(formats, format);
}

std::string_view name_of(MatmulFormat format) {
  return traits(format).name;
}

double quantized_copy_bytes(MatmulFormat format) {
  return 2 * traits(format).weight_bytes;
}

}  // namespace dtfm
