#include "planner/io/importers/megatron_flags.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include <fmt/format.h>

#include "planner/io/text/quoted_words.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

constexpr int most = 1'000'000'000;

enum class Takes { nothing, number, word };

struct KnownFlag {
  std::string_view name;
  Takes takes;
};

/// megatron/training/arguments.py of Megatron-LM (core 0.14 and later).
constexpr std::array<KnownFlag, 18> known_flags = {{
    {"--tensor-model-parallel-size", Takes::number},
    {"--pipeline-model-parallel-size", Takes::number},
    {"--context-parallel-size", Takes::number},
    {"--expert-model-parallel-size", Takes::number},
    {"--use-tp-pp-dp-mapping", Takes::nothing},
    {"--num-layers", Takes::number},
    {"--pipeline-model-parallel-layout", Takes::word},
    {"--decoder-first-pipeline-num-layers", Takes::number},
    {"--decoder-last-pipeline-num-layers", Takes::number},
    {"--account-for-embedding-in-pipeline-split", Takes::nothing},
    {"--account-for-loss-in-pipeline-split", Takes::nothing},
    {"--num-layers-per-virtual-pipeline-stage", Takes::number},
    {"--num-virtual-stages-per-pipeline-rank", Takes::number},
    {"--hidden-size", Takes::number},
    {"--num-attention-heads", Takes::number},
    {"--seq-length", Takes::number},
    {"--micro-batch-size", Takes::number},
    {"--global-batch-size", Takes::number},
}};

const KnownFlag* known(std::string_view name) {
  const auto found = std::find_if(known_flags.begin(), known_flags.end(),
                                  [&](const KnownFlag& flag) { return flag.name == name; });
  return found == known_flags.end() ? nullptr : found;
}

bool is_flag(std::string_view word) {
  return word.size() > 2 && word.starts_with("--");
}

struct PlacedWord {
  std::string text, where;
};

std::vector<PlacedWord> words_of(std::string_view text, const std::string& file) {
  std::vector<PlacedWord> words;
  for_each_line_of_words(text, [&](std::size_t line, const std::vector<QuotedWord>& of_line) {
    for (const QuotedWord& word : of_line) words.push_back({word.text, position(file, line, word.column)});
  });
  return words;
}

/// The value of a flag that takes one.
MegatronFlags::Value value_of(const KnownFlag& flag, const PlacedWord& word, Faults& faults) {
  MegatronFlags::Value value{word.text, word.where, {}};
  if (flag.takes == Takes::word) return value;
  int number = 0;
  const char* end = word.text.data() + word.text.size();
  const auto [stop, status] = std::from_chars(word.text.data(), end, number);
  if (status == std::errc() && stop == end && number >= 1 && number <= most)
    value.number = number;
  else
    faults.add(word.where, fmt::format("{}: expected a whole number from 1 to {}; found {}{}", flag.name,
                                       most, in_quotes(word.text),
                                       word.text.starts_with('$') ? " (variables are not expanded)" : ""));
  return value;
}

}  // namespace

MegatronFlags::MegatronFlags(std::string_view text, const std::string& file, Faults& faults) {
  const std::vector<PlacedWord> words = words_of(text, file);
  std::set<std::string> ignored;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& [word, where] = words[i];
    if (!is_flag(word)) continue;
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const KnownFlag* flag = known(name);
    if (flag == nullptr) {
      if (ignored.insert(name).second) ignored_.push_back(name);
    } else if (flag->takes == Takes::nothing) {
      add(name, {"", where, {}}, faults);
    } else if (equals != word.npos) {
      add(name, value_of(*flag, {word.substr(equals + 1), where}, faults), faults);
    } else if (i + 1 < words.size() && !is_flag(words[i + 1].text)) {
      add(name, value_of(*flag, words[++i], faults), faults);
    } else {
      faults.add(where, name + " needs a value");
    }
  }
}

void MegatronFlags::add(const std::string& name, const Value& value, Faults& faults) {
  const auto [first, is_new] = given_.try_emplace(name, value);
  if (!is_new)
    faults.add(value.where, fmt::format("{} is there twice, first at {}", name, first->second.where));
}

std::optional<int> MegatronFlags::number(std::string_view flag) const {
  const auto found = given_.find(flag);
  return found == given_.end() ? std::nullopt : found->second.number;
}

std::string MegatronFlags::ignored_note() const {
  if (ignored_.empty()) return "";
  constexpr std::size_t most_named = 12;
  std::vector<std::string_view> names;
  for (const KnownFlag& flag : known_flags) names.push_back(flag.name);
  std::string text = "flags that say nothing of the plan are passed over:";
  for (std::size_t i = 0; i < std::min(ignored_.size(), most_named); ++i) {
    text += (i == 0 ? " " : ", ") + in_quotes(ignored_[i]);
    if (const auto near = nearest_name(ignored_[i], names); !near.empty())
      text += fmt::format(" (did you mean {}?)", in_quotes(near));
  }
  if (ignored_.size() > most_named) text += fmt::format(" and {} more", ignored_.size() - most_named);
  return text;
}

bool has_megatron_flags(std::string_view text) {
  Faults faults;
  return !MegatronFlags(text, "", faults).empty() || !faults.empty();
}

}  // namespace dtfm::io
