// Scripts with gaps, which lie in planner/export/templates as scripts.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtfm::exporter {

/// `text` with the value of each key in place of @key@. What fills a gap is not looked at again.
std::string fill_template(std::string_view text, const std::vector<std::pair<std::string, std::string>>& values);

/// The lines between `begin`, a line's start, and the next line that is `)`: a table in a script, without
/// blanks and quotes around the lines.
std::vector<std::string> table_lines(const std::string& script, std::string_view begin);

/// The words of a line, which stand between blanks.
std::vector<std::string> split_words(const std::string& line);

/// What stands behind `key`, up to the first of the characters `ends`, or the end of the text. Throws
/// BrokenInvariant where there is no `key`.
std::string text_after(const std::string& text, std::string_view key, std::string_view ends);

/// A word as a whole number. Throws BrokenInvariant for what is none.
int parse_number(const std::string& word);

/// The whole number behind `key`, up to a blank or the end of the line.
int number_after(const std::string& text, std::string_view key);

/// `1,2,0` as whole numbers: one at least.
std::vector<int> parse_number_list(const std::string& text, char separator);

}  // namespace dtfm::exporter
