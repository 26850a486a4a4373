#include "planner/io/calibration_reader.hpp"

#include <string_view>
#include <utility>

#include "planner/io/yaml_reader.hpp"

namespace dtfm {

extern const std::string_view calibration_yaml;

namespace {

/// In (0, 1].
double share(const YamlMap& map, std::string_view key) {
  const YamlValue value = map.required(key);
  const double share = value.ratio();
  if (share > 1) throw value.value_error("is a share: at most 1");
  return share;
}

}  // namespace

Calibration built_in_calibration() {
  return parse_calibration(std::string(calibration_yaml), "configs/calibration.yaml");
}

Calibration parse_calibration(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  const YamlMap map = versioned_map(
      document, "the constants of the simulator",
      {"version", "compute_scale", "message_overhead", "network_efficiency", "iteration_overhead"});
  return {map.required("compute_scale").ratio(), map.required("message_overhead").seconds().value(),
          share(map, "network_efficiency"), map.required("iteration_overhead").seconds().value()};
}

}  // namespace dtfm
