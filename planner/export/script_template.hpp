// Fills in the script templates of planner/export/templates, and parses generated scripts.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dtfm::exporter {

/// `text` with each @key@ replaced by its value. Inserted values are not searched for keys.
std::string fill_template(std::string_view text,
                          const std::vector<std::pair<std::string, std::string>>& values);

/// The lines of a table in a script: those between the line that starts with `begin` and the next line `)`,
/// without surrounding blanks and quotes. Throws BrokenInvariant if the table has no end.
std::vector<std::string> table_lines(const std::string& script, std::string_view begin);

/// The words of a line, separated by blanks.
std::vector<std::string> split_words(const std::string& line);

/// The text after the first `key`, up to the first of the characters `ends` or the end of the text. Throws
/// BrokenInvariant if `key` does not occur.
std::string text_after(const std::string& text, std::string_view key, std::string_view ends);

/// A word as a whole number. Throws BrokenInvariant if it is not one.
int parse_number(const std::string& word);

/// The whole number after the first `key`, up to a blank or the end of the line.
int number_after(const std::string& text, std::string_view key);

/// A list such as `1,2,0` as whole numbers, at least one.
std::vector<int> parse_number_list(const std::string& text, char separator);

}  // namespace dtfm::exporter
