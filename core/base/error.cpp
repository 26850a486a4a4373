#include "core/base/error.hpp"

#include <fmt/format.h>

namespace dtfm {

Error::Error(std::string where, const std::string& what)
    : std::runtime_error(where.empty() ? what : where + ": " + what), where_(std::move(where)), problem_(what) {}

void report_broken_invariant(const char* condition, const char* file, int line) {
  throw BrokenInvariant(fmt::format("broken invariant `{}` at {}:{}", condition, file, line));
}

}  // namespace dtfm
