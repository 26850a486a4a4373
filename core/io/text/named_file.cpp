#include "core/io/text/named_file.hpp"

#include <fmt/format.h>

#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
std::filesystem::path path_below(const std::filesystem::path& folder, const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(name).lexically_normal();
  if (path.is_absolute() || path.empty() || *path.begin() == "..")
    throw Error("", fmt::format("{} is outside the folder of this file", quote(name)));
  const std::filesystem::path whole = folder / path;
  std::error_code code;
  if (std::filesystem::is_other(whole, code))  // reading a pipe may block forever
    throw Error("", fmt::format("{} is not a regular file", quote(whole.string())));
  return whole;
}

NamedFile read_named_file(const YamlValue& value, const std::filesystem::path& folder, std::size_t limit) {
  const std::string name = value.text(max_path_length);
  try {
    const std::filesystem::path path = path_below(folder, name);
    return {path.string(), read_file(path, limit, value.where())};
  } catch (const Error& error) {
    throw value.value_error(error.what());
  }
}

Unit read_unit(const YamlValue& value, Unit (*parse_unit)(std::string_view)) {
  const std::string name = value.text();
  try {
    return parse_unit(name);
  } catch (const Error& error) {
    throw value.value_error(error.what());
  }
}

}  // namespace dtfm::io
