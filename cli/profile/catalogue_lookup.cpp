#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "cli/profile/measure_layers.hpp"
#include "core/base/error.hpp"
#include "core/io/readers/gpu_catalogue.hpp"
#include "core/io/text/suggest.hpp"
#include "core/io/text/units.hpp"

namespace dtfm::cli {
namespace {

/// Runs of letters and digits, in upper case.
std::vector<std::string> split_words(const std::string& text) {
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

/// Whether `word` is one of `words` or several consecutive ones joined: `2080TI` matches `2080`, `TI`.
bool has_word(const std::vector<std::string>& words, const std::string& word) {
  for (std::size_t first = 0; first < words.size(); ++first) {
    std::string run;
    for (std::size_t i = first; i < words.size() && run.size() < word.size(); ++i)
      if ((run += words[i]) == word) return true;
  }
  return false;
}

/// The GPU with the longest name whose words all occur in `device_name`; null if there is none.
const Gpu* most_similar_gpu(std::span<const Gpu> catalogue, const std::string& device_name) {
  const std::vector<std::string> words = split_words(device_name);
  const Gpu* best = nullptr;
  for (const Gpu& gpu : catalogue) {
    const std::vector<std::string> own = split_words(gpu.name);
    const bool is_like =
        std::all_of(own.begin(), own.end(), [&](const auto& word) { return has_word(words, word); });
    if (is_like && (!best || gpu.name.size() > best->name.size())) best = &gpu;
  }
  return best;
}

Error unknown_gpu_error(const std::string& why) {
  return Error("--gpu", fmt::format("is missing: {}; give the name to use in profiles", why));
}

}  // namespace

const Gpu& find_in_catalogue(std::span<const Gpu> catalogue, const std::string& device_name, Bytes memory) {
  if (const Gpu* gpu = io::find_gpu_by_driver_name(catalogue, device_name)) {
    if (io::has_memory(*gpu, memory)) return *gpu;
    throw unknown_gpu_error(fmt::format("{} has {} here, but the catalogue's {} has {}",
                                        io::quote(device_name), io::format_bytes(memory), gpu->name,
                                        io::format_bytes(gpu->memory)));
  }
  const Gpu* other = most_similar_gpu(catalogue, device_name);
  throw unknown_gpu_error(
      fmt::format("{} is not in the catalogue{}", io::quote(device_name),
                  other ? fmt::format(", whose {} is a different one, {}", other->name,
                                      io::quote(other->drivers.empty() ? "" : other->drivers.front()))
                        : ""));
}

}  // namespace dtfm::cli
