#include "planner/export/script_template.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "core/base/error.hpp"

namespace dtfm::exporter {

std::string fill_template(std::string_view text,
                          const std::vector<std::pair<std::string, std::string>>& values) {
  std::string filled;
  while (!text.empty()) {
    const std::size_t open = std::min(text.find('@'), text.size());
    filled += text.substr(0, open);
    text.remove_prefix(open);
    const auto placeholder = std::find_if(values.begin(), values.end(), [&](const auto& value) {
      return text.size() > value.first.size() + 1 && text.substr(1).starts_with(value.first) &&
             text[value.first.size() + 1] == '@';
    });
    if (placeholder != values.end()) {
      filled += placeholder->second;
      text.remove_prefix(placeholder->first.size() + 2);
    } else if (!text.empty()) {
      filled += text.front();
      text.remove_prefix(1);
    }
  }
  return filled;
}

std::vector<std::string> table_lines(const std::string& script, std::string_view begin) {
  std::vector<std::string> lines;
  std::istringstream text(script);
  bool is_inside = false;
  for (std::string line; std::getline(text, line);) {
    if (is_inside && line == ")") return lines;
    if (is_inside) {
      const std::size_t first = line.find_first_not_of(" \""), last = line.find_last_not_of(" \"");
      lines.push_back(first == line.npos ? "" : line.substr(first, last - first + 1));
    }
    is_inside = is_inside || line.starts_with(begin);
  }
  DTFM_ASSERT(false && "a table in a script has no end");
  return lines;
}

std::vector<std::string> split_words(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

std::string text_after(const std::string& text, std::string_view key, std::string_view ends) {
  const std::size_t begin = text.find(key);
  DTFM_ASSERT(begin != text.npos);
  const std::size_t from = begin + key.size();
  return text.substr(from, text.find_first_of(ends, from) - from);
}

int parse_number(const std::string& word) {
  int number = 0;
  const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), number);
  DTFM_ASSERT(status == std::errc() && end == word.data() + word.size());
  return number;
}

int number_after(const std::string& text, std::string_view key) {
  return parse_number(text_after(text, key, " \n"));
}

std::vector<int> parse_number_list(const std::string& text, char separator) {
  std::vector<int> numbers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    numbers.push_back(parse_number(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return numbers;
}

}  // namespace dtfm::exporter
