// Writes the result of a command.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"

namespace dtfm::cli {

/// Writes a file, which an interrupt leaves either complete or unchanged.
void write_output_file(const std::string& file, const std::string& text);

/// Writes `json` to the file `output`, if given, calls `write_more`, and prints `json` or `text` to stdout
/// unless `output` is stdout. The file is written first, so that it exists even if `write_more` fails or
/// stdout is closed.
void write_output(const std::optional<std::string>& output, OutputFormat format, const std::string& json,
                  const std::string& text, ColorChoice color = ColorChoice::automatic,
                  const std::function<void()>& write_more = {});

}  // namespace dtfm::cli
