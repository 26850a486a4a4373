#include "core/io/text/read_log.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/io/text/atomic_file.hpp"

namespace dtfm::io {
namespace {

/// Thread-local, so that the log need not be passed through all readers, which do not use it.
thread_local ReadLog* current = nullptr;

}  // namespace

bool is_same_file(const std::string& a, const std::string& b) {
  if (is_stdout(a) || is_stdout(b)) return is_stdout(a) && is_stdout(b);
  std::error_code code;
  if (std::filesystem::is_character_file(a, code)) return false;
  if (std::filesystem::equivalent(a, b, code)) return true;
  const auto first = weakly_canonical(std::filesystem::absolute(a), code);
  if (code) return false;
  return first == weakly_canonical(std::filesystem::absolute(b), code) && !code;
}

ReadLog::ReadLog() : outer_(current) {
  current = this;
}

ReadLog::~ReadLog() {
  current = outer_;
}

void ReadLog::note(std::string_view path, std::string_view referenced_by) {
  if (current == nullptr) return;
  auto& files = current->files_;
  if (std::none_of(files.begin(), files.end(),
                   [&](const ReadFile& it) { return it.path == path && it.referenced_by == referenced_by; }))
    files.push_back({std::string(path), std::string(referenced_by)});
}

void check_not_read(const ReadLog& read, std::span<const std::string> outputs) {
  for (const std::string& output : outputs)
    for (const ReadFile& it : read.files())
      if (!output.empty() && is_same_file(it.path, output))
        throw Error(output,
                    "cannot write: it is an input" +
                        (it.referenced_by.empty() ? "" : fmt::format(", which {} names", it.referenced_by)));
}

}  // namespace dtfm::io
