#include "core/io/writers/yaml_text.hpp"

#include <string_view>

#include <fmt/format.h>

namespace dtfm::io {

std::string yaml_quoted(const std::string& text) {
  std::string result = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i);
    const auto second = static_cast<unsigned char>(rest.size() > 1 ? rest[1] : 0);
    if (text[i] == '\xC2' && second < 0xA0) {
      result += fmt::format("\\u{:04x}", second);
      i += 1;
    } else if (rest.starts_with("\u2028") || rest.starts_with("\u2029")) {
      result += rest.starts_with("\u2028") ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      if (text[i] == '"' || text[i] == '\\') result += '\\';
      result += text[i];
    }
  }
  return result + "\"";
}

std::string yaml_latency(Seconds latency) {
  return fmt::format("{:.6g} ms", latency.value() * 1e3);
}

std::string yaml_rate(BitsPerSecond rate) {
  const bool is_fast = rate.value() >= 1e9;
  return fmt::format("{:.6g} {}", rate.value() / (is_fast ? 1e9 : 1e6), is_fast ? "Gbps" : "Mbps");
}

}  // namespace dtfm::io
