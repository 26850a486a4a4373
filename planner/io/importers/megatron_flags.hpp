// Those flags of Megatron-LM's command line that say who computes what, as they stand in a launch script.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/io/text/input_errors.hpp"

namespace dtfm::io {

/// The flags that are known, with the words behind them.
class MegatronFlags {
 public:
  struct Value {
    std::string text, where;    // where: "file:line:column"
    std::optional<int> number;  // of a flag that takes one
  };

  /// `text` is UTF-8: the words of its lines (split_shell_words); `--flag value` or `--flag=value`. Nothing is
  /// expanded. Words that are neither a known flag nor its value are passed over. Adds to `faults`, at
  /// file:line:column: a flag without its value, a value that is no whole number above zero, a flag that is
  /// there twice.
  MegatronFlags(std::string_view text, const std::string& file, InputErrors& errors);

  bool has(std::string_view flag) const { return values_.contains(flag); }
  /// The whole number behind a flag; nothing: the flag is not there.
  std::optional<int> number(std::string_view flag) const;
  /// The word behind a flag that is there.
  const std::string& text(std::string_view flag) const { return values_.find(flag)->second.text; }
  /// "file:line:column" of the value of a flag that is there.
  const std::string& where(std::string_view flag) const { return values_.find(flag)->second.where; }
  bool empty() const { return values_.empty(); }
  /// A sentence that names the flags that nothing is known of, and what may have been meant; empty: there is
  /// none.
  std::string format_ignored_flags() const;

 private:
  void add(const std::string& name, const Value& value, InputErrors& errors);

  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::string> ignored_;  // each once, in the order of the file
};

/// Whether there is a known flag in a text.
bool has_megatron_flags(std::string_view text);

}  // namespace dtfm::io
