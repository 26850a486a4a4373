// Resolves references from YAML files to other files and to units.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "core/io/text/text_file.hpp"
#include "core/io/text/units.hpp"
#include "core/io/text/yaml_reader.hpp"

namespace dtfm::io {

struct NamedFile {
  std::string path, text;
};

/// Reads the file that a value names.
using FileReader = std::function<NamedFile(const YamlValue& name)>;

/// Longest path that a file may name, in bytes.
inline constexpr std::size_t max_path_length = 1024;

/// Path of the file `name`, relative to `folder`, which is the folder of the file that refers to it. Throws
/// Error (without a position) if it is not below `folder` or is not a regular file.
std::filesystem::path path_below(const std::filesystem::path& folder, const std::string& name);

/// Reads the file that `value` names. It must be below `folder`, the folder of the YAML file, and have at
/// most `limit` bytes. Throws Error at `value`.
NamedFile read_named_file(const YamlValue& value, const std::filesystem::path& folder, std::size_t limit);

/// The same file in parts, whenever it is opened. Throws Error at `value` then, and while it is read. `value`
/// must outlive the result.
struct NamedText {
  std::string path;
  OpenText open;
};
NamedText named_text(const YamlValue& value, const std::filesystem::path& folder, std::size_t limit);

/// `parse_unit` is `time_unit` or `rate_unit`. Throws Error at `value` for an unknown unit.
Unit read_unit(const YamlValue& value, Unit (*parse_unit)(std::string_view));

}  // namespace dtfm::io
