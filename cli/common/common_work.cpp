#include "cli/common/common_work.hpp"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "cli/common/print_error.hpp"

namespace dtfm::cli {
namespace {

/// FNV-1a (Fowler, Noll and Vo), 64 bits. A cryptographic hash is not needed: files differ only by accident.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

/// When a file was last written; nothing if it does not exist.
std::optional<std::filesystem::file_time_type> time_of(const std::string& file) {
  std::error_code code;
  const auto time = std::filesystem::last_write_time(file, code);
  return code ? std::nullopt : std::optional(time);
}

}  // namespace

void check_same_input(const Work& work, const std::vector<std::string>& options, const io::ReadLog& read) {
  if (!work.ranks) return;
  RankInput input{DTFM_VERSION, options, {}, work.threads};
  for (const io::ReadFile& it : read.files()) {
    std::error_code code;
    if (!std::filesystem::is_regular_file(it.path, code)) continue;
    std::ifstream file(it.path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    input.files += fmt::format("{} {:016x} ", it.path, hash_of(text));
  }
  work.ranks->check_same_input(input);
}

bool continues_alone(Ranks* ranks, bool quiet) {
  if (!ranks) return true;
  ranks->leave();
  if (ranks->is_root() && !quiet)
    print_error(fmt::format("{} ranks exchanged {:.2f} MB in {} rounds\n", ranks->size(),
                            static_cast<double>(ranks->bytes()) / 1e6, ranks->rounds()));
  return ranks->is_root();
}

bool replaces_root(const Ranks* ranks, const std::optional<std::string>& output) {
  if (!ranks || !ranks->is_broken() || ranks->rank() != 1 || !output) return false;
  constexpr int checks = 8;
  constexpr auto pause = std::chrono::milliseconds(50);
  const auto before = time_of(*output);
  for (int check = 0; check < checks; ++check) {
    std::this_thread::sleep_for(pause);
    if (time_of(*output) != before) return false;
  }
  return true;
}

}  // namespace dtfm::cli
