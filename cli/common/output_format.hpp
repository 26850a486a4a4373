// The format of the result on stdout.
#pragma once

#include <string>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/suggest.hpp"

namespace dtfm::cli {

enum class OutputFormat { text, json };

/// Parses the value of `option`. Throws Error for unknown formats.
inline OutputFormat parse_output_format(const std::string& option, const std::string& name) {
  if (name != "text" && name != "json")
    throw Error(option, fmt::format("expected text or json; found {}", io::quote(name)));
  return name == "json" ? OutputFormat::json : OutputFormat::text;
}

}  // namespace dtfm::cli
