#include <algorithm>
#include <cctype>

#include "cli/measure_layers.hpp"

namespace dtfm {
namespace {

/// Runs of letters and digits, as capitals.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte))
      words.back() += static_cast<char>(std::toupper(byte));
    else if (!words.back().empty())
      words.emplace_back();
  }
  return words;
}

/// Whether `word` is one of `words` or several of them in a row: `2080TI` is `2080`, `TI`.
bool has_word(const std::vector<std::string>& words, const std::string& word) {
  for (std::size_t first = 0; first < words.size(); ++first) {
    std::string run;
    for (std::size_t i = first; i < words.size() && run.size() < word.size(); ++i)
      if ((run += words[i]) == word) return true;
  }
  return false;
}

}  // namespace

const Gpu* catalogued(std::span<const Gpu> catalogue, const std::string& device_name) {
  const std::vector<std::string> words = words_of(device_name);
  const Gpu* best = nullptr;
  for (const Gpu& gpu : catalogue) {
    const std::vector<std::string> own = words_of(gpu.name);
    const bool is_it =
        std::all_of(own.begin(), own.end(), [&](const auto& word) { return has_word(words, word); });
    if (is_it && (!best || gpu.name.size() > best->name.size())) best = &gpu;
  }
  return best;
}

}  // namespace dtfm
