#include "core/io/text/json_format.hpp"

#include <cmath>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "core/base/error.hpp"

namespace dtfm::io {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t line_width = 110;

std::string format_number(double number) {
  DTFM_ASSERT(std::isfinite(number));
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";  // keeps the type when read back
  return text;
}

std::string format_string(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string format_key(const std::string& key) {
  return format_string(key) + ": ";
}

std::string join_parts(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

/// `used` is the number of columns that are already taken on the line.
std::string format_value(const ordered_json& value, std::size_t indent, std::size_t used);

/// The elements of a container as text, each with its key if the container is an object.
std::vector<std::string> format_elements(const ordered_json& value, std::size_t indent) {
  std::vector<std::string> parts;
  for (auto element = value.begin(); element != value.end(); ++element) {
    const std::string key = value.is_object() ? format_key(element.key()) : "";
    parts.push_back(key + format_value(*element, indent, indent + key.size() + 1));
  }
  return parts;
}

bool fits(const std::vector<std::string>& parts, std::size_t used) {
  std::size_t width = used + 2;
  for (const std::string& part : parts) {
    if (part.find('\n') != std::string::npos) return false;
    width += part.size() + 2;
  }
  return width <= line_width;
}

/// Puts as many elements on each line as fit, for long lists of numbers or names.
std::string wrap_elements(const std::vector<std::string>& parts, const std::string& margin) {
  std::string text = margin;
  std::size_t width = margin.size();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string part = parts[i] + (i + 1 < parts.size() ? "," : "");
    if (i > 0 && width + 1 + part.size() > line_width) {
      text += "\n" + margin;
      width = margin.size();
    } else if (i > 0) {
      text += " ";
      ++width;
    }
    text += part;
    width += part.size();
  }
  return text;
}

bool is_scalar_array(const ordered_json& value) {
  for (const auto& element : value)
    if (element.is_structured()) return false;
  return value.is_array();
}

std::string format_container(const ordered_json& value, std::size_t indent, std::size_t used) {
  const char open = value.is_object() ? '{' : '[', close = value.is_object() ? '}' : ']';
  const auto parts = format_elements(value, indent + 1);
  if (fits(parts, used)) return fmt::format("{}{}{}", open, join_parts(parts, ", "), close);
  const std::string margin(indent + 1, ' ');
  const std::string body =
      is_scalar_array(value) ? wrap_elements(parts, margin) : margin + join_parts(parts, ",\n" + margin);
  return fmt::format("{}\n{}\n{}{}", open, body, std::string(indent, ' '), close);
}

std::string format_value(const ordered_json& value, std::size_t indent, std::size_t used) {
  if (value.is_structured()) return format_container(value, indent, used);
  if (value.is_number_float()) return format_number(value.get<double>());
  return format_string(value);
}

}  // namespace

std::string format_json(const ordered_json& value) {
  return format_value(value, 0, 0) + "\n";
}

}  // namespace dtfm::io
