#include "core/io/importers/megatron_flags.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <span>

#include <fmt/format.h>

#include "core/io/importers/megatron_settings.hpp"
#include "core/io/text/shell_words.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

constexpr int max_value = 1'000'000'000;

struct KnownFlag {
  std::string_view name;
  FlagArgument argument;
  bool may_repeat = false;  // the last one counts, as for Megatron-LM
};

/// Flags of sizes and parallelism, from megatron/training/arguments.py of Megatron-LM (core 0.14 and later).
constexpr std::array<KnownFlag, 20> size_flags = {{
    {"--tensor-model-parallel-size", FlagArgument::number},
    {"--pipeline-model-parallel-size", FlagArgument::number},
    {"--context-parallel-size", FlagArgument::number},
    {"--expert-model-parallel-size", FlagArgument::number},
    {"--expert-tensor-parallel-size", FlagArgument::number},
    {"--use-tp-pp-dp-mapping", FlagArgument::none},
    {"--num-layers", FlagArgument::number},
    {"--pipeline-model-parallel-layout", FlagArgument::word},
    {"--decoder-first-pipeline-num-layers", FlagArgument::number},
    {"--decoder-last-pipeline-num-layers", FlagArgument::number},
    {"--account-for-embedding-in-pipeline-split", FlagArgument::none},
    {"--account-for-loss-in-pipeline-split", FlagArgument::none},
    {"--num-layers-per-virtual-pipeline-stage", FlagArgument::number},
    {"--num-virtual-stages-per-pipeline-rank", FlagArgument::number},
    {"--hidden-size", FlagArgument::number},
    {"--num-attention-heads", FlagArgument::number},
    {"--seq-length", FlagArgument::number},
    {"--micro-batch-size", FlagArgument::number},
    {"--global-batch-size", FlagArgument::number},
    {"--use-rotary-position-embeddings", FlagArgument::none},
}};

/// All flags that affect a plan.
std::span<const KnownFlag> known_flags() {
  static const std::vector<KnownFlag> all = [] {
    std::vector<KnownFlag> flags(size_flags.begin(), size_flags.end());
    for (const MegatronSettingFlag& it : megatron_setting_flags())
      flags.push_back({it.name, it.argument, true});
    return flags;
  }();
  return all;
}

const KnownFlag* find_flag(std::string_view name) {
  for (const KnownFlag& it : known_flags())
    if (it.name == name) return &it;
  return nullptr;
}

bool is_flag(std::string_view word) {
  return word.size() > 2 && word.starts_with("--");
}

/// Values of --recompute-modules (megatron/core/transformer/transformer_config.py).
constexpr std::string_view modules[] = {"core_attn", "moe_act", "layernorm",     "mla_up_proj",
                                        "mlp",       "moe",     "shared_experts"};

bool is_module(std::string_view word) {
  return std::find(std::begin(modules), std::end(modules), word) != std::end(modules);
}

struct LocatedWord {
  std::string text, where;
};

std::vector<LocatedWord> read_words(std::string_view text, const std::string& file) {
  std::vector<LocatedWord> words;
  for_each_line_of_words(text, [&](std::size_t line, const std::vector<ShellWord>& line_words) {
    for (const ShellWord& word : line_words) words.push_back({word.text, position(file, line, word.column)});
  });
  return words;
}

/// Parses the value of a flag that takes one; adds an error if it is not a number where one is expected.
MegatronFlags::Value parse_flag_value(const KnownFlag& flag, const LocatedWord& word, InputErrors& errors) {
  MegatronFlags::Value value{word.text, word.where, {}};
  if (flag.argument != FlagArgument::number) return value;
  int number = 0;
  const char* end = word.text.data() + word.text.size();
  const auto [stop, status] = std::from_chars(word.text.data(), end, number);
  if (status == std::errc() && stop == end && number >= 1 && number <= max_value)
    value.number = number;
  else
    errors.add(word.where, fmt::format("{}: expected a whole number from 1 to {}; found {}{}", flag.name,
                                       max_value, quote(word.text),
                                       word.text.starts_with('$') ? " (variables are not expanded)" : ""));
  return value;
}

}  // namespace

MegatronFlags::MegatronFlags(std::string_view text, const std::string& file, InputErrors& errors) {
  const std::vector<LocatedWord> words = read_words(text, file);
  std::set<std::string> ignored;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& [word, where] = words[i];
    if (!is_flag(word)) continue;
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const KnownFlag* flag = find_flag(name);
    if (flag == nullptr) {
      if (ignored.insert(name).second) ignored_.push_back(name);
    } else if (flag->argument == FlagArgument::none) {
      if (equals != word.npos) errors.add(where, name + " takes no value; remove the flag to turn it off");
      add(name, {"", where, {}}, errors);
    } else if (equals != word.npos) {
      add(name, parse_flag_value(*flag, {word.substr(equals + 1), where}, errors), errors);
    } else if (i + 1 < words.size() && !is_flag(words[i + 1].text)) {
      LocatedWord value = words[++i];
      while (flag->argument == FlagArgument::words && i + 1 < words.size() && is_module(words[i + 1].text))
        value.text += " " + words[++i].text;
      add(name, parse_flag_value(*flag, value, errors), errors);
    } else {
      errors.add(where, name + " requires a value");
    }
  }
}

void MegatronFlags::add(const std::string& name, const Value& value, InputErrors& errors) {
  const auto [first, is_new] = values_.try_emplace(name, value);
  if (!is_new && find_flag(name)->may_repeat)
    first->second = value;
  else if (!is_new)
    errors.add(value.where, fmt::format("{} is given twice, first at {}", name, first->second.where));
}

std::optional<int> MegatronFlags::number(std::string_view flag) const {
  const auto found = values_.find(flag);
  return found == values_.end() ? std::nullopt : found->second.number;
}

std::string MegatronFlags::format_ignored_flags() const {
  if (ignored_.empty()) return "";
  constexpr std::size_t max_named = 12;
  std::vector<std::string_view> names;
  for (const KnownFlag& flag : known_flags()) names.push_back(flag.name);
  std::string text = "flags that are not compared with the job:";
  for (std::size_t i = 0; i < std::min(ignored_.size(), max_named); ++i) {
    text += (i == 0 ? " " : ", ") + quote(ignored_[i]);
    if (const auto nearest = nearest_name(ignored_[i], names); !nearest.empty())
      text += fmt::format(" (did you mean {}?)", quote(nearest));
  }
  if (ignored_.size() > max_named) text += fmt::format(" and {} more", ignored_.size() - max_named);
  return text;
}

bool has_megatron_flags(std::string_view text) {
  InputErrors errors;
  return !MegatronFlags(text, "", errors).empty() || !errors.empty();
}

}  // namespace dtfm::io
