#include "core/io/text/named_file.hpp"

#include <memory>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/read_log.hpp"
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

NamedText named_text(const YamlValue& value, const std::filesystem::path& folder, std::size_t limit) {
  const auto at_value = [&value](const auto& read) {
    try {
      return read();
    } catch (const Error& error) {
      throw value.value_error(error.what());
    }
  };
  const std::string name = value.text(max_path_length);
  const std::filesystem::path path = at_value([&] { return path_below(folder, name); });
  ReadLog::note(path.string(), value.where());
  return {path.string(), [at_value, path, limit] {
            auto parts = at_value([&] { return std::make_shared<FileParts>(path, limit); });
            return [at_value, parts](std::string& text) {
              return at_value([&] { return parts->append_next(text); });
            };
          }};
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
