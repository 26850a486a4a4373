#include "core/io/readers/roofline_reader.hpp"

#include <string_view>
#include <utility>

#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

extern const std::string_view roofline_yaml;

Roofline built_in_roofline() {
  static const Roofline roofline = parse_roofline(std::string(roofline_yaml), "configs/roofline.yaml");
  return roofline;
}

Roofline parse_roofline(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  const YamlMap map =
      versioned_map(document, "the constants of the roofline", {"version", "16-bit", "32-bit"});
  const auto read = [&](std::string_view key) -> RooflineConstants {
    const YamlMap constants =
        map.required(key).map({"compute", "memory_forward", "memory_backward", "launch", "update"});
    return {constants.required("compute").ratio(), constants.required("memory_forward").ratio(),
            constants.required("memory_backward").ratio(), constants.required("launch").seconds().value(),
            constants.required("update").ratio()};
  };
  return {read("16-bit"), read("32-bit")};
}

}  // namespace dtfm::io
