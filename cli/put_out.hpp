// Where the result of a command goes.
#pragma once

#include <optional>
#include <string>

#include "cli/output_format.hpp"
#include "cli/style.hpp"

namespace dtfm {

/// To a file, which Ctrl-C leaves whole or as it was.
void put_into(const std::string& file, const std::string& text);

/// `json` to the file `output`, if there is one, and first: it must be there even if nobody reads stdout.
/// Then one of the two to stdout, unless the file is that.
void put_out(const std::optional<std::string>& output, OutputFormat format, const std::string& json,
             const std::string& text, ColorChoice color = ColorChoice::automatic);

}  // namespace dtfm
