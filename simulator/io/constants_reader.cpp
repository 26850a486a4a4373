#include "simulator/io/constants_reader.hpp"

#include <string_view>
#include <utility>

#include "planner/io/yaml_reader.hpp"

namespace dtfm {

extern const std::string_view simulator_yaml;

namespace {

/// In (0, 1].
double share(const YamlMap& map, std::string_view key) {
  const YamlValue value = map.required(key);
  const double share = value.ratio();
  if (share > 1) throw value.value_error("is a share: at most 1");
  return share;
}

}  // namespace

SimConstants built_in_constants() {
  return parse_constants(std::string(simulator_yaml), "configs/simulator.yaml");
}

SimConstants parse_constants(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  const YamlMap map = versioned_map(
      document, "the constants of the simulator",
      {"version", "compute_scale", "message_overhead", "network_efficiency", "iteration_overhead"});
  return {map.required("compute_scale").ratio(), map.required("message_overhead").seconds().value(),
          share(map, "network_efficiency"), map.required("iteration_overhead").seconds().value()};
}

}  // namespace dtfm
