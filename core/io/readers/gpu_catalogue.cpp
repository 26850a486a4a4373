#include "core/io/readers/gpu_catalogue.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/io/text/suggest.hpp"

namespace dtfm::io {

extern const std::string_view gpus_yaml;

namespace {

std::optional<FlopsPerSecond> optional_peak(const YamlMap& map, std::string_view key) {
  const auto peak = map.optional(key);
  return peak ? std::optional(peak->flop_rate()) : std::nullopt;
}

std::optional<BitsPerSecond> optional_rate(const YamlMap& map, std::string_view key) {
  const auto rate = map.optional(key);
  return rate ? std::optional(rate->rate()) : std::nullopt;
}

}  // namespace

std::vector<Gpu> built_in_gpus() {
  return parse_gpu_catalogue(std::string(gpus_yaml), "configs/gpus.yaml");
}

std::vector<Gpu> parse_gpu_catalogue(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  return read_gpus(versioned_map(document, "a GPU catalogue", {"version", "gpus"}).required("gpus"));
}

std::vector<Gpu> read_gpus(const YamlValue& list) {
  std::vector<Gpu> gpus;
  std::map<std::string, std::string> first_seen;
  for (const YamlValue& item : list.list()) {
    const YamlMap map = item.map({"name", "driver", "memory", "peak", "peak_tf32", "peak_fp32", "peak_fp8",
                                  "peak_fp4", "memory_bandwidth", "interconnect", "host_link", "price"});
    const YamlValue name = map.required("name"), memory = map.required("memory");
    const auto [seen, is_new] = first_seen.emplace(name.text(), name.where());
    if (!is_new)
      throw name.error(fmt::format("GPU {} is given twice, first at {}", quote(name.text()), seen->second));
    Gpu& gpu = gpus.emplace_back(Gpu{name.text(), memory.bytes()});
    gpu.peak = optional_peak(map, "peak");
    gpu.peak_tf32 = optional_peak(map, "peak_tf32");
    gpu.peak_fp32 = optional_peak(map, "peak_fp32");
    gpu.peak_fp8 = optional_peak(map, "peak_fp8");
    gpu.peak_fp4 = optional_peak(map, "peak_fp4");
    gpu.memory_bandwidth = optional_rate(map, "memory_bandwidth");
    gpu.interconnect = optional_rate(map, "interconnect");
    gpu.host_link = optional_rate(map, "host_link");
    if (const auto price = map.optional("price")) gpu.price = price->price();
    if (const auto driver = map.optional("driver")) gpu.driver = driver->text();
    if (gpu.memory.value() == 0) throw memory.value_error("must be above zero");
  }
  return gpus;
}

std::vector<Gpu> merge_gpus(std::vector<Gpu> gpus, const std::vector<Gpu>& extension) {
  const auto size = static_cast<std::ptrdiff_t>(gpus.size());
  for (const Gpu& gpu : extension) {
    const auto existing =
        std::find_if(gpus.begin(), gpus.begin() + size, [&](const Gpu& g) { return g.name == gpu.name; });
    if (existing == gpus.begin() + size)
      gpus.push_back(gpu);
    else
      *existing = gpu;
  }
  return gpus;
}

}  // namespace dtfm::io
