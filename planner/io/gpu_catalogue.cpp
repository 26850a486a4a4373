#include "planner/io/gpu_catalogue.hpp"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "planner/io/suggest.hpp"

namespace dtfm {

extern const std::string_view gpus_yaml;

std::vector<Gpu> built_in_gpus() {
  return parse_gpu_catalogue(std::string(gpus_yaml), "configs/gpus.yaml");
}

std::vector<Gpu> parse_gpu_catalogue(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  return read_gpus(versioned_map(document, "a GPU catalogue", {"version", "gpus"}).required("gpus"));
}

std::vector<Gpu> read_gpus(const YamlValue& list) {
  std::vector<Gpu> gpus;
  std::map<std::string, std::string> places;
  for (const YamlValue& item : list.list()) {
    const YamlMap map = item.map({"name", "memory", "peak"});
    const YamlValue name = map.required("name"), memory = map.required("memory");
    const auto [place, is_new] = places.emplace(name.text(), name.where());
    if (!is_new)
      throw name.error(
          fmt::format("GPU {} is given twice, first at {}", in_quotes(name.text()), place->second));
    gpus.push_back({name.text(), memory.bytes()});
    if (const auto peak = map.optional("peak")) gpus.back().peak = peak->flop_rate();
    if (gpus.back().memory.value() == 0) throw memory.value_error("must be above zero");
  }
  return gpus;
}

std::vector<Gpu> extended(std::vector<Gpu> gpus, const std::vector<Gpu>& extension) {
  const auto size = static_cast<std::ptrdiff_t>(gpus.size());
  for (const Gpu& gpu : extension) {
    const auto old =
        std::find_if(gpus.begin(), gpus.begin() + size, [&](const Gpu& g) { return g.name == gpu.name; });
    if (old == gpus.begin() + size)
      gpus.push_back(gpu);
    else
      *old = gpu;
  }
  return gpus;
}

}  // namespace dtfm
