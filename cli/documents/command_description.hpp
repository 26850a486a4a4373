// What a command line says of itself, as plain values: manual pages and completions are made from these.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace dtfm::cli {

struct OptionDescription {
  enum class Files { none, files, folders };

  std::vector<std::string> names;  // "-o", "--output"; of a positional what stands for it: "TOPOLOGY"
  std::vector<std::string>
      values;        // what stands for each of its values, "FILE"; empty: a flag, or a positional
  std::string help;  // of one line
  std::vector<std::string> choices;  // values to complete; of letters, digits and -._+ only
  Files files = Files::none;         // that its values name
  bool is_required = false, may_repeat = false;
};

struct CommandDescription {
  std::string name;         // "dtfm-plan"; of a subcommand its own, "import"
  std::string description;  // of one line
  std::string footer;       // paragraphs; indented lines are to be left as they are
  std::vector<OptionDescription> options, positionals;
  std::vector<CommandDescription> commands;  // subcommands
};

/// Throws std::logic_error for a choice that a shell could take for something else.
CommandDescription describe(CLI::App& app);

}  // namespace dtfm::cli
