// Splits a line of a text file into tokens and reports errors at their positions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace dtfm::io {

struct Token {
  std::string_view text;
  std::size_t line = 0, column = 0;  // from 1; columns are counted in bytes
};

/// Throws Error at the position of `token` in `file`.
[[noreturn]] void fail_at(const std::string& file, const Token& token, const std::string& description);

enum class NumberRange { non_negative, positive, any };

class LineTokens {
 public:
  explicit LineTokens(const std::string& file) : file_(file) {}

  /// Reads the tokens of `line`, except a comment that starts with #.
  void read(std::string_view line, std::size_t number);
  bool empty() const { return tokens_.empty(); }
  bool done() const { return next_ == tokens_.size(); }
  /// The next token. Throws Error if there is none; `description` says what was expected.
  Token take(std::string_view description);
  Token peek(std::string_view description) const;
  /// Takes a decimal number in the allowed range, which must be 0 or have a magnitude from 1e-24 to 1e24.
  /// Throws Error otherwise.
  double take_number(std::string_view description, NumberRange allowed);
  /// Takes one of `choices` and returns its index. Throws Error for anything else.
  int take_choice(std::string_view description, const std::vector<std::string_view>& choices);
  /// Throws Error if there is another token.
  void expect_end() const;

 private:
  const std::string& file_;
  std::vector<Token> tokens_;
  std::size_t next_ = 0;
  Token end_;
};

}  // namespace dtfm::io
