// Extracts the flags of Megatron-LM's command line that determine a plan from a launch script.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/io/text/input_errors.hpp"

namespace dtfm::io {

/// The known flags of a launch script, with their values.
class MegatronFlags {
 public:
  struct Value {
    std::string text, where;    // where: "file:line:column"
    std::optional<int> number;  // only for flags that take a number
  };

  /// Splits the lines of `text` (UTF-8) into words (split_shell_words) and looks for `--flag value` and
  /// `--flag=value`. Variables are not expanded. Words that are neither a known flag nor its value are
  /// ignored. Adds to `errors`, at file:line:column: flags without a value, and of flags of sizes and
  /// parallelism values that are not positive integers, and duplicates. Of other flags the last one counts.
  MegatronFlags(std::string_view text, const std::string& file, InputErrors& errors);

  bool has(std::string_view flag) const { return values_.contains(flag); }
  /// Number that is the value of a flag; nullopt if the flag or a valid number is missing.
  std::optional<int> number(std::string_view flag) const;
  /// Value of a flag, which must be present.
  const std::string& text(std::string_view flag) const { return values_.find(flag)->second.text; }
  /// "file:line:column" of a flag, which must be present: of its value, if it takes one.
  const std::string& where(std::string_view flag) const { return values_.find(flag)->second.where; }
  bool empty() const { return values_.empty(); }
  /// A note that lists the unknown flags with suggestions for misspelled ones; empty if there are none.
  std::string format_ignored_flags() const;

 private:
  void add(const std::string& name, const Value& value, InputErrors& errors);

  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::string> ignored_;  // unknown flags, each once, in file order
};

/// Whether `text` contains a known flag.
bool has_megatron_flags(std::string_view text);

}  // namespace dtfm::io
