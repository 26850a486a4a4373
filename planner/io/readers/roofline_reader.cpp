#include "planner/io/readers/roofline_reader.hpp"

#include <string_view>
#include <utility>

#include "planner/io/text/yaml_reader.hpp"

namespace dtfm::io {

extern const std::string_view roofline_yaml;

Roofline built_in_roofline() {
  return parse_roofline(std::string(roofline_yaml), "configs/roofline.yaml");
}

Roofline parse_roofline(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  const YamlMap map =
      versioned_map(document, "the constants of the roofline",
                    {"version", "compute", "memory_forward", "memory_backward", "launch", "update"});
  return {map.required("compute").ratio(), map.required("memory_forward").ratio(),
          map.required("memory_backward").ratio(), map.required("launch").seconds().value(),
          map.required("update").ratio()};
}

}  // namespace dtfm::io
