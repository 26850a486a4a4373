#include "cli/profile/profile_summary.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "cli/common/text_formatting.hpp"
#include "core/plan/job.hpp"
#include "core/plan/layer_times.hpp"
#include "core/plan/roofline.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::cli {
namespace {

using nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr const char* no_value = "–";
constexpr double ms_per_s = 1000, flops_per_teraflop = 1e12;

std::string milliseconds(double seconds) {
  return fmt::format("{:.4g}", seconds * ms_per_s);
}

const Gpu* find_gpu(std::span<const Gpu> catalogue, const std::string& name) {
  const auto gpu =
      std::find_if(catalogue.begin(), catalogue.end(), [&](const Gpu& it) { return it.name == name; });
  return gpu == catalogue.end() ? nullptr : &*gpu;
}

class Writer {
 public:
  explicit Writer(const ProfileSummary& summary)
      : profile_(summary.profile), catalogue_(summary.catalogue), gpu_(find_gpu(catalogue_, profile_.gpu)) {
    if (summary.model) kinds_ = layer_kinds(*summary.model, traits(profile_.precision).bytes_per_element);
  }

  std::string title() const {
    std::string text = fmt::format("{}: layers of {} in {}, {}\n", profile_.gpu, profile_.model,
                                   name_of(profile_.precision), name_of(profile_.source));
    if (!profile_.derivation.empty()) text += profile_.derivation + "\n";
    if (!gpu_) {
      std::vector<std::string_view> names;
      for (const Gpu& gpu : catalogue_) names.push_back(gpu.name);
      text += format_remarks(
          "note", {fmt::format("GPU {} is not in the catalogue: topologies that use it must define it; {}",
                               io::quote(profile_.gpu), io::suggestion(profile_.gpu, names))});
    }
    return text + beyond_peak_warning();
  }

  std::string rows() const {
    Rows rows = {{"kind", "micro-batch", "tensor", "forward ms", "backward ms", "update ms", "spread",
                  "model TFLOP/s", "of peak"}};
    for (const ProfileRow& row : profile_.rows) {
      const auto rate = rate_of(row);
      rows.push_back({row.kind, fmt::format("{}", row.micro_batch), fmt::format("{}", row.tensor),
                      milliseconds(row.forward.median_s), milliseconds(row.backward.median_s),
                      row.update ? milliseconds(row.update->median_s) : no_value, spread_of(row),
                      rate ? fmt::format("{:.4g}", *rate / flops_per_teraflop) : no_value,
                      share_of_peak(rate)});
    }
    return table(rows) + flops_convention_note();
  }

  /// Table of activation and peak memory; empty if the profile has neither.
  std::string memory() const {
    Rows rows = {{"kind", "micro-batch", "tensor", "kept until backward", "peak allocated"}};
    for (const ProfileRow& row : profile_.rows)
      if (row.activation_bytes || row.peak_bytes)
        rows.push_back({row.kind, fmt::format("{}", row.micro_batch), fmt::format("{}", row.tensor),
                        format_size(row.activation_bytes), format_size(row.peak_bytes)});
    return rows.size() > 1 ? std::string("\n").append(table(rows)) : "";
  }

 private:
  /// Warns of layers faster than the peak of the GPU allows: their measurement is incomplete or of another
  /// model.
  std::string beyond_peak_warning() const {
    std::vector<std::string> kinds;
    for (const ProfileRow& row : profile_.rows) {
      const Layer* kind = kind_of(row);
      const bool is_new = kinds.empty() || kinds.back() != io::quote(row.kind);
      if (gpu_ && kind && is_new &&
          is_beyond_peak(*gpu_, *kind, row.micro_batch, row.tensor, seconds_of(row)))
        kinds.push_back(io::quote(row.kind));
    }
    if (kinds.empty()) return "";
    return format_remarks(
        "note",
        {fmt::format(
            "{} would be computed faster than the peak of the GPU: the measurement is incomplete or of "
            "another model",
            fmt::join(kinds, ", "))});
  }

  /// FLOPs of forward and backward of one sequence, as usually counted: attention as if there were no causal
  /// mask (Narayanan et al., arXiv 2104.04473, section 3.4; Chowdhery et al., arXiv 2204.02311,
  /// appendix B).
  static double model_flops(const Layer& kind) { return (kind.forward + kind.backward).value(); }

  /// Returns a note on how the table counts the FLOPs of attention, because kernels may skip some of them.
  std::string flops_convention_note() const {
    const bool has_attention = std::any_of(kinds_.kinds.begin(), kinds_.kinds.end(),
                                           [](const Layer& kind) { return kind.attention.value() > 0; });
    return has_attention ? "\nmodel TFLOP/s count attention in full, even where a causal mask lets kernels "
                           "skip half of it, and exclude recomputation\n"
                         : "";
  }

  static std::string format_size(const std::optional<double>& bytes) {
    return bytes ? io::format_bytes(Bytes(*bytes)) : no_value;
  }

  /// Returns null if the model does not have the layer.
  const Layer* kind_of(const ProfileRow& row) const {
    const auto kind = std::find_if(kinds_.kinds.begin(), kinds_.kinds.end(),
                                   [&](const Layer& it) { return it.name == row.kind; });
    return kind == kinds_.kinds.end() ? nullptr : &*kind;
  }

  static double seconds_of(const ProfileRow& row) { return row.forward.median_s + row.backward.median_s; }

  /// Model FLOP/s; nothing if the FLOPs are unknown or the time is too short to divide by.
  std::optional<double> rate_of(const ProfileRow& row) const {
    const Layer* kind = kind_of(row);
    if (kind == nullptr || kind->forward.value() == 0) return std::nullopt;
    const double rate = model_flops(*kind) * row.micro_batch / row.tensor / seconds_of(row);
    return std::isfinite(rate) ? std::optional(rate) : std::nullopt;
  }

  std::string share_of_peak(const std::optional<double>& rate) const {
    const auto peak = gpu_ ? peak_of(*gpu_, profile_.precision) : std::nullopt;
    return rate && peak ? format_percent(*rate / peak->value()) : no_value;
  }

  /// The larger of forward and backward, as a share of the median.
  static std::string spread_of(const ProfileRow& row) {
    double largest = 0;
    for (const Timing& timing : {row.forward, row.backward})
      if (timing.median_s > 0) largest = std::max(largest, timing.spread_s / timing.median_s);
    return largest > 0 ? format_percent(largest) : no_value;
  }

  const LayerProfile& profile_;
  std::span<const Gpu> catalogue_;
  const Gpu* gpu_;
  LayerKinds kinds_;
};

template <class Value, class Format>
std::string format_optional(const std::optional<Value>& value, const Format& format) {
  return value ? format(*value) : no_value;
}

template <class Value>
void add_number(ordered_json& json, const char* key, const std::optional<Value>& value, double divisor = 1) {
  if (value) json[key] = value->value() / divisor;
}

}  // namespace

std::string format_summary(const ProfileSummary& summary) {
  const Writer writer(summary);
  return writer.title() + "\n" + writer.rows() + writer.memory();
}

std::string catalogue_text(std::span<const Gpu> catalogue) {
  const auto byte_rate = [](BitsPerSecond rate) {
    return io::format_bytes(Bytes(rate.value() / bits_per_byte)) + "/s";
  };
  const auto price = [](DollarsPerHour rate) { return fmt::format("{} USD/h", rate.value()); };
  Rows rows = {{"GPU", "memory", "16-bit peak", "TF32", "FP32", "FP8", "FP4", "bandwidth", "interconnect",
                "CPU link", "price"}};
  for (const Gpu& gpu : catalogue)
    rows.push_back({gpu.name, io::format_bytes(gpu.memory), format_optional(gpu.peak, io::format_flop_rate),
                    format_optional(gpu.peak_tf32, io::format_flop_rate),
                    format_optional(gpu.peak_fp32, io::format_flop_rate),
                    format_optional(gpu.peak_fp8, io::format_flop_rate),
                    format_optional(gpu.peak_fp4, io::format_flop_rate),
                    format_optional(gpu.memory_bandwidth, byte_rate),
                    format_optional(gpu.interconnect, byte_rate), format_optional(gpu.host_link, byte_rate),
                    format_optional(gpu.price, price)});
  return table(rows);
}

ordered_json catalogue_json(std::span<const Gpu> catalogue) {
  ordered_json list = ordered_json::array();
  for (const Gpu& gpu : catalogue) {
    ordered_json& json =
        list.emplace_back(ordered_json{{"name", gpu.name}, {"memory_bytes", gpu.memory.value()}});
    if (gpu.architecture != Architecture::other) json["architecture"] = name_of(gpu.architecture);
    add_number(json, "peak_flops_per_s", gpu.peak);
    add_number(json, "peak_tf32_flops_per_s", gpu.peak_tf32);
    add_number(json, "peak_fp32_flops_per_s", gpu.peak_fp32);
    add_number(json, "peak_fp8_flops_per_s", gpu.peak_fp8);
    add_number(json, "peak_fp4_flops_per_s", gpu.peak_fp4);
    add_number(json, "memory_bytes_per_s", gpu.memory_bandwidth, bits_per_byte);
    add_number(json, "interconnect_bytes_per_s", gpu.interconnect, bits_per_byte);
    add_number(json, "host_link_bytes_per_s", gpu.host_link, bits_per_byte);
    add_number(json, "price_usd_per_h", gpu.price);
  }
  return list;
}

}  // namespace dtfm::cli
