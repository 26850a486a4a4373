#include "core/io/readers/gpu_catalogue.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include <fmt/format.h>

#include "core/base/kind_table.hpp"
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

std::vector<std::string> read_driver_names(const YamlValue& value) {
  if (!value.is_list()) return {value.text()};
  std::vector<std::string> names;
  for (const YamlValue& name : value.list()) names.push_back(name.text());
  if (names.empty()) throw value.value_error("expected a name; found none");
  return names;
}

/// The words of a driver's name in lower case, without brands: drivers since version 470 write "NVIDIA A100"
/// and "NVIDIA GeForce RTX 3090", older ones "A100" and "GeForce RTX 3090". Slurm separates words by `_`.
std::string comparable_name(std::string_view name) {
  std::string result, word;
  const auto end_word = [&] {
    if (word != "nvidia" && word != "tesla" && word != "geforce" && word != "quadro") result += word + ' ';
    word.clear();
  };
  for (const char c : name) {
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), is_digit = c >= '0' && c <= '9';
    if (is_letter || is_digit)
      word += is_digit ? c : static_cast<char>(c | 0x20);
    else if (!word.empty())
      end_word();
  }
  if (!word.empty()) end_word();
  return result;
}

}  // namespace

const Gpu* find_gpu_by_driver_name(std::span<const Gpu> gpus, std::string_view name) {
  const std::string wanted = comparable_name(name);
  for (const Gpu& gpu : gpus)
    for (const std::string& driver : gpu.drivers)
      if (comparable_name(driver) == wanted) return &gpu;
  return nullptr;
}

const Gpu* find_gpu_by_similar_name(std::span<const Gpu> gpus, std::string_view name) {
  const std::string wanted = comparable_name(name);
  const auto found = std::find_if(gpus.begin(), gpus.end(),
                                  [&](const Gpu& gpu) { return comparable_name(gpu.name) == wanted; });
  return found == gpus.end() ? nullptr : std::to_address(found);
}

bool has_memory(const Gpu& gpu, Bytes memory) {
  constexpr double tolerance = 0.1;
  return std::abs(memory / gpu.memory - 1) <= tolerance;
}

std::optional<int> built_in_nvlinks(const Gpu& gpu) {
  if (!gpu.interconnect || !gpu.nvlink) return std::nullopt;
  const double links = *gpu.interconnect / *gpu.nvlink;
  return links >= 1 && links == std::floor(links) ? std::optional(static_cast<int>(links)) : std::nullopt;
}

std::vector<Gpu> built_in_gpus() {
  static const std::vector<Gpu> gpus = parse_gpu_catalogue(std::string(gpus_yaml), "configs/gpus.yaml");
  return gpus;
}

std::vector<Gpu> parse_gpu_catalogue(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  return read_gpus(versioned_map(document, "a GPU catalogue", {"version", "gpus"}).required("gpus"));
}

std::vector<Gpu> read_gpus(const YamlValue& list) {
  std::vector<Gpu> gpus;
  std::map<std::string, std::string> first_seen;
  for (const YamlValue& item : list.list()) {
    const YamlMap map =
        item.map({"name", "driver", "architecture", "memory", "peak", "peak_tf32", "peak_fp32", "peak_fp8",
                  "peak_fp4", "memory_bandwidth", "interconnect", "nvlink", "host_link", "price"});
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
    gpu.nvlink = optional_rate(map, "nvlink");
    gpu.host_link = optional_rate(map, "host_link");
    if (const auto price = map.optional("price")) gpu.price = price->price();
    if (const auto architecture = map.optional("architecture"))
      gpu.architecture = architecture_table()[architecture->choice(names_in(architecture_table()))].kind;
    if (const auto driver = map.optional("driver")) gpu.drivers = read_driver_names(*driver);
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
