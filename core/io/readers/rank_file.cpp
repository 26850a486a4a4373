#include "core/io/readers/rank_file.hpp"

#include <charconv>
#include <map>

#include <fmt/format.h>

#include "core/io/readers/device_inventory.hpp"
#include "core/io/text/shell_words.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

/// Parses `text` as an integer; nullopt if it is anything else or not in [min_value, max_value].
std::optional<int> parse_int_in_range(std::string_view text, int min_value, int max_value) {
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = status == std::errc() && end == text.data() + text.size();
  return is_number && value >= min_value && value <= max_value ? std::optional(value) : std::nullopt;
}

std::string join_words(const std::vector<ShellWord>& words) {
  std::string line;
  for (const ShellWord& word : words) line += (line.empty() ? "" : " ") + word.text;
  return line;
}

struct DeviceName {
  std::string name, where;
};

class RankReader {
 public:
  RankReader(const std::string& file, DeviceResolver& resolver, InputErrors& errors)
      : file_(file), resolver_(resolver), errors_(errors) {}

  std::vector<std::optional<int>> read(std::string_view text) {
    for_each_line_of_words(text, [&](std::size_t number, const std::vector<ShellWord>& words) {
      line_ = number;
      if (!has_explicit_ranks_) has_explicit_ranks_ = words.front().text == "rank";
      *has_explicit_ranks_ ? read_rank_line(words) : read_device_line(words);
    });
    if (device_by_rank_.empty() && is_readable_) errors_.add(file_, "there are no ranks");
    if (is_readable_) check_missing_ranks();
    std::vector<std::optional<int>> devices;
    for (const auto& [rank, device_name] : device_by_rank_)
      devices.push_back(resolver_.assign_or_next(device_name.name, device_name.where));
    if (!is_readable_) devices.clear();
    return devices;
  }

 private:
  std::string where(const ShellWord& word) const { return position(file_, line_, word.column); }

  void reject(const std::string& where, const std::string& what) {
    errors_.add(where, what);
    is_readable_ = false;
  }

  /// Reads a line `rank N=DEVICE [slot=…]`.
  void read_rank_line(const std::vector<ShellWord>& words) {
    const std::string_view pair = words.size() > 1 ? std::string_view(words[1].text) : "";
    const std::size_t equals = pair.find('=');
    const auto rank = parse_int_in_range(pair.substr(0, equals), 0, max_devices - 1);
    if (words.front().text != "rank" || !rank || equals + 1 >= pair.size() || equals == pair.npos)
      return reject(where(words.front()), fmt::format("expected `rank N=DEVICE`, N from 0 to {}; found {}",
                                                      max_devices - 1, quote(join_words(words))));
    for (std::size_t i = 2; i < words.size(); ++i)
      if (!words[i].text.starts_with("slot="))
        errors_.add(where(words[i]), "expected `slot=CORES`; found " + quote(words[i].text));
    const auto [first, is_new] =
        device_by_rank_.try_emplace(*rank, DeviceName{std::string(pair.substr(equals + 1)), where(words[1])});
    if (!is_new)
      errors_.add(where(words[1]),
                  fmt::format("rank {} is given twice, first at {}", *rank, first->second.where));
  }

  /// Reads a line `DEVICE [slots=N]`.
  void read_device_line(const std::vector<ShellWord>& words) {
    constexpr std::string_view key = "slots=";
    int ranks = 1;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string_view word = words[i].text;
      const auto slots =
          word.starts_with(key) ? parse_int_in_range(word.substr(key.size()), 1, max_devices) : std::nullopt;
      if (!slots || i > 1)
        return reject(where(words[i]),
                      fmt::format("expected `slots=N`, N from 1 to {}, or the end of the line; "
                                  "found {}",
                                  max_devices, quote(word)));
      ranks = *slots;
    }
    if (device_by_rank_.size() + static_cast<std::size_t>(ranks) > std::size_t{max_devices})
      return reject(where(words.front()), fmt::format("more than {} ranks", max_devices));
    for (int i = 0; i < ranks; ++i)
      device_by_rank_.emplace(static_cast<int>(device_by_rank_.size()),
                              DeviceName{words.front().text, where(words.front())});
  }

  void check_missing_ranks() {
    int next = 0;
    for (const auto& [rank, device_name] : device_by_rank_) {
      if (rank != next)
        errors_.add(device_name.where,
                    fmt::format("rank {}, but there is no rank {}: ranks are numbered consecutively from 0",
                                rank, next));
      next = rank + 1;
    }
  }

  const std::string& file_;
  DeviceResolver& resolver_;
  InputErrors& errors_;
  std::size_t line_ = 0;
  std::optional<bool> has_explicit_ranks_;  // whether lines give their ranks; the first line decides
  std::map<int, DeviceName> device_by_rank_;
  bool is_readable_ = true;  // whether all lines so far were valid
};

}  // namespace

std::vector<std::optional<int>> read_ranks(std::string_view text, const std::string& file,
                                           DeviceResolver& resolver, InputErrors& errors) {
  return RankReader(file, resolver, errors).read(text);
}

}  // namespace dtfm::io
