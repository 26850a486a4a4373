#include "planner/io/readers/rank_file.hpp"

#include <charconv>
#include <map>

#include <fmt/format.h>

#include "planner/io/readers/fleet_reader.hpp"
#include "planner/io/text/quoted_words.hpp"
#include "planner/io/text/suggest.hpp"
#include "planner/io/text/text_file.hpp"

namespace dtfm::io {
namespace {

/// The number that `text` is, if it is a whole number in [least, most] and nothing else.
std::optional<int> number_in(std::string_view text, int least, int most) {
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool is_number = status == std::errc() && end == text.data() + text.size();
  return is_number && value >= least && value <= most ? std::optional(value) : std::nullopt;
}

std::string line_of(const std::vector<QuotedWord>& words) {
  std::string line;
  for (const QuotedWord& word : words) line += (line.empty() ? "" : " ") + word.text;
  return line;
}

struct Place {
  std::string name, where;
};

class RankReader {
 public:
  RankReader(const std::string& file, DevicePlaces& places, Faults& faults)
      : file_(file), places_(places), faults_(faults) {}

  std::vector<std::optional<int>> read(std::string_view text) {
    for_each_line_of_words(text, [&](std::size_t number, const std::vector<QuotedWord>& words) {
      line_ = number;
      if (!is_numbered_) is_numbered_ = words.front().text == "rank";
      *is_numbered_ ? read_rank(words) : read_place(words);
    });
    if (place_of_.empty() && is_readable_) faults_.add(file_, "there is no rank");
    if (is_readable_) check_missing();
    std::vector<std::optional<int>> devices;
    for (const auto& [rank, place] : place_of_)
      devices.push_back(places_.take_or_next(place.name, place.where));
    if (!is_readable_) devices.clear();
    return devices;
  }

 private:
  std::string where(const QuotedWord& word) const { return position(file_, line_, word.column); }

  void refuse(const std::string& where, const std::string& what) {
    faults_.add(where, what);
    is_readable_ = false;
  }

  /// rank N=PLACE [slot=…]
  void read_rank(const std::vector<QuotedWord>& words) {
    const std::string_view pair = words.size() > 1 ? std::string_view(words[1].text) : "";
    const std::size_t equals = pair.find('=');
    const auto rank = number_in(pair.substr(0, equals), 0, most_devices - 1);
    if (words.front().text != "rank" || !rank || equals + 1 >= pair.size() || equals == pair.npos)
      return refuse(where(words.front()), fmt::format("expected `rank N=DEVICE`, N from 0 to {}; found {}",
                                                      most_devices - 1, in_quotes(line_of(words))));
    for (std::size_t i = 2; i < words.size(); ++i)
      if (!words[i].text.starts_with("slot="))
        faults_.add(where(words[i]), "expected `slot=CORES`; found " + in_quotes(words[i].text));
    const auto [first, is_new] =
        place_of_.try_emplace(*rank, Place{std::string(pair.substr(equals + 1)), where(words[1])});
    if (!is_new)
      faults_.add(where(words[1]),
                  fmt::format("rank {} is there twice, first at {}", *rank, first->second.where));
  }

  /// PLACE [slots=N]
  void read_place(const std::vector<QuotedWord>& words) {
    constexpr std::string_view key = "slots=";
    int ranks = 1;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const std::string_view word = words[i].text;
      const auto slots =
          word.starts_with(key) ? number_in(word.substr(key.size()), 1, most_devices) : std::nullopt;
      if (!slots || i > 1)
        return refuse(where(words[i]),
                      fmt::format("expected `slots=N`, N from 1 to {}, or the end of the line; "
                                  "found {}",
                                  most_devices, in_quotes(word)));
      ranks = *slots;
    }
    if (place_of_.size() + static_cast<std::size_t>(ranks) > std::size_t{most_devices})
      return refuse(where(words.front()), fmt::format("more than {} ranks", most_devices));
    for (int i = 0; i < ranks; ++i)
      place_of_.emplace(static_cast<int>(place_of_.size()), Place{words.front().text, where(words.front())});
  }

  void check_missing() {
    int next = 0;
    for (const auto& [rank, place] : place_of_) {
      if (rank != next)
        faults_.add(place.where,
                    fmt::format("rank {}, but there is no rank {}: all are needed, from 0 on", rank, next));
      next = rank + 1;
    }
  }

  const std::string& file_;
  DevicePlaces& places_;
  Faults& faults_;
  std::size_t line_ = 0;
  std::optional<bool> is_numbered_;  // whether lines say their ranks; the first one decides
  std::map<int, Place> place_of_;    // by rank
  bool is_readable_ = true;          // all lines so far: only then is it known how many there are
};

}  // namespace

std::vector<std::optional<int>> read_ranks(std::string_view text, const std::string& file,
                                           DevicePlaces& places, Faults& faults) {
  return RankReader(file, places, faults).read(text);
}

}  // namespace dtfm::io
