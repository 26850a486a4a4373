// What a YAML file says of another one: which file, in which unit.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "planner/io/text/units.hpp"
#include "planner/io/text/yaml_reader.hpp"

namespace dtfm::io {

struct NamedFile {
  std::string path, text;
};

/// The file that a value names.
using FileReader = std::function<NamedFile(const YamlValue& name)>;

/// The path of a file that another one names. Throws Error (without a position) for one that is not below
/// `folder`, that of the other file, or is not a regular file.
std::filesystem::path path_below(const std::filesystem::path& folder, const std::string& name);

/// The file that `value` names. It must lie below `folder`, that of the YAML file, and have at most `limit`
/// bytes. Throws Error at `value`.
NamedFile read_named_file(const YamlValue& value, const std::filesystem::path& folder, std::size_t limit);

/// `find` is one of `time_unit` and `rate_unit`. Throws Error at `value`.
Unit read_unit(const YamlValue& value, Unit (*parse_unit)(std::string_view));

}  // namespace dtfm::io
