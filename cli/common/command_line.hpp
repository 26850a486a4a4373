// Parses the command lines of all programs, and the options that only programs have.
#pragma once

#include <string>
#include <vector>

#include "cli/common/output_format.hpp"
#include "cli/common/style.hpp"
#include "planner/request/option_list.hpp"

namespace dtfm::cli {

using request::Option;
using request::OptionList;
namespace heading = request::heading;

/// Adds --format, the format of the printed result.
void add_format_option(OptionList& list, OutputFormat& format);

/// Adds --color, --quiet and --help under the heading General, and --version, which prints `version`, unless
/// it is empty.
void add_general_options(OptionList& list, ColorChoice& color, bool& quiet, const char* quiet_help,
                         const std::string& version = "");

/// Returns the given options and arguments with their values, except those that may differ between ranks,
/// because they affect only speed and output.
std::vector<std::string> common_options(const OptionList& list);

/// Calls what sets the given options, and notes their values in `list`. Returns false after --help or
/// --version. Throws Error for invalid options, with a suggestion if there is a similar valid one.
bool parse_command_line(OptionList& list, int argc, char** argv);

}  // namespace dtfm::cli
