#include "core/io/text/read_log.hpp"

#include <algorithm>

namespace dtfm::io {
namespace {

/// Thread-local, so that the log need not be passed through all readers, which do not use it.
thread_local ReadLog* current = nullptr;

}  // namespace

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

}  // namespace dtfm::io
