#include "core/io/text/control_characters.hpp"

#include <string>

#include "tests/support/catch.hpp"

using namespace dtfm;
using namespace dtfm::io;

TEST_CASE("characters that control a terminal are escaped") {
  CHECK(escape_control_characters("a\033[1m") == "a\\x1b[1m");
  CHECK(escape_control_characters(std::string("\0\x7f", 2)) == "\\x00\\u007f");
  CHECK(escape_control_characters("\u0080\u009f") == "\\u0080\\u009f");
  CHECK(escape_control_characters("\u202a\u202e\u2066\u2069") == "\\u202a\\u202e\\u2066\\u2069");
  CHECK(escape_control_characters("a\tb\nc", "\n") == "a\\x09b\nc");
}

TEST_CASE("all other characters are kept including the neighbours of escaped ranges") {
  // Neighbours of the escaped ranges: U+00A0, U+2029 (not a directional character), U+202F, U+2065, U+206A,
  // and truncated characters.
  for (const std::string text :
       {" ~", "\u00a0é", "\u2029\u202f", "\u2065\u206a", "×→😀", "\xc2", "\xe2\x80"}) {
    CHECK(escape_control_characters(text) == text);
    CHECK_FALSE(has_control_character(text));
  }
  CHECK(has_control_character("a\u009b"));
}
