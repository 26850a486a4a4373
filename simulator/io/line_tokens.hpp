// The words of one line of a text file, taken one after the other, and what is wrong with them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtfm::io {

struct Token {
  std::string_view text;
  std::size_t line = 0, column = 0;  // from 1, in bytes
};

/// Throws Error at `word` in `file`.
[[noreturn]] void fail_at(const std::string& file, const Token& token, const std::string& description);

enum class NumberRange { non_negative, positive, any };

class LineTokens {
 public:
  explicit LineTokens(const std::string& file) : file_(file) {}

  /// The words of `line`, without a comment from # on.
  void read(std::string_view line, std::size_t number);
  bool empty() const { return tokens_.empty(); }
  bool done() const { return next_ == tokens_.size(); }
  /// The next word. Throws Error that says which one is missing (`what`).
  Token take(std::string_view description);
  Token peek(std::string_view description) const;
  /// A decimal number in the range, 0 or of a size from 1e-24 to 1e24. Throws Error.
  double take_number(std::string_view description, NumberRange allowed);
  /// One of `choices`, as its position. Throws Error.
  int take_choice(std::string_view description, const std::vector<std::string_view>& choices);
  /// Throws Error if there is another word.
  void expect_end() const;

 private:
  const std::string& file_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  Token end_;
};

}  // namespace dtfm::io
