#include "core/io/readers/roofline_reader.hpp"

#include <optional>
#include <string_view>
#include <utility>

#include "core/base/kind_table.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

extern const std::string_view roofline_yaml;

namespace {

using Ratios = std::array<double, architecture_count>;

/// A number for all architectures, or a map of numbers by architecture, in which `other` is for those that it
/// does not name.
Ratios read_ratios(const YamlValue& value) {
  Ratios ratios;
  if (!value.is_map()) {
    ratios.fill(value.ratio());
    return ratios;
  }
  const YamlMap map = value.map(names_in(architecture_table()));
  ratios.fill(map.required(name_of(Architecture::other)).ratio());
  for (const ArchitectureTraits& row : architecture_table())
    if (const auto own = map.optional(row.name)) ratios[static_cast<std::size_t>(row.kind)] = own->ratio();
  return ratios;
}

Roofline::ByArchitecture read_constants(const YamlValue& value) {
  const YamlMap map = value.map({"compute", "attention", "memory_forward", "memory_backward", "memory_head",
                                 "launch", "tensor_launch", "update"});
  const Ratios compute = read_ratios(map.required("compute")),
               attention = read_ratios(map.required("attention"));
  const double memory_forward = map.required("memory_forward").ratio(),
               memory_backward = map.required("memory_backward").ratio(),
               memory_head = map.required("memory_head").ratio(),
               launch_s = map.required("launch").seconds().value(),
               tensor_launch = map.required("tensor_launch").ratio(), update = map.required("update").ratio();
  Roofline::ByArchitecture constants;
  for (std::size_t i = 0; i < architecture_count; ++i)
    constants[i] = {compute[i],  attention[i], memory_forward, memory_backward,
                    memory_head, launch_s,     tensor_launch,  update};
  return constants;
}

}  // namespace

Roofline built_in_roofline() {
  static const Roofline roofline = parse_roofline(std::string(roofline_yaml), "configs/roofline.yaml");
  return roofline;
}

Roofline parse_roofline(std::string text, std::string file) {
  const YamlDocument document(std::move(text), std::move(file));
  const YamlMap map =
      versioned_map(document, "the constants of the roofline", {"version", "16-bit", "32-bit"});
  return {read_constants(map.required("16-bit")), read_constants(map.required("32-bit"))};
}

}  // namespace dtfm::io
