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

/// `json` to the file `output`, if there is one, and first: it must exist even if stdout is closed.
/// Then one of the two to stdout, unless the file is that. `write_more` comes between the two: where it
/// fails, the file is there.
void write_output(const std::optional<std::string>& output, OutputFormat format, const std::string& json,
                  const std::string& text, ColorChoice color = ColorChoice::automatic,
                  const std::function<void()>& write_more = {});

}  // namespace dtfm::cli
