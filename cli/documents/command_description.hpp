// Plain-value description of a command line, from which manual pages and completions are generated.
#pragma once

#include <string>
#include <vector>

#include "planner/request/option_list.hpp"

namespace dtfm::cli {

struct OptionDescription {
  enum class Files { none, files, folders };

  std::vector<std::string> names;  // "-o", "--output"; of a positional its placeholder: "TOPOLOGY"
  std::vector<std::string>
      values;         // placeholder of each value, such as "FILE"; empty for a flag or positional
  std::string group;  // heading in --help
  std::string help;   // one line
  std::vector<std::string> choices;  // values to complete; letters, digits and -._+ only
  Files files = Files::none;         // kind of path that its values name
  bool may_repeat = false;
};

struct CommandDescription {
  std::string name;         // "dtfm-plan"; of a subcommand its own name, "import"
  std::string description;  // one line
  std::string footer;       // paragraphs; indented lines are preformatted
  std::vector<OptionDescription> options, positionals;
  std::vector<CommandDescription> commands;  // subcommands
};

/// The description of a program and its subcommands. Throws std::logic_error for a choice that a shell could
/// misinterpret.
CommandDescription describe(const request::OptionList& list);

}  // namespace dtfm::cli
