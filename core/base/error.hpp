// The only two ways to report problems: invalid usage or input, and broken invariants.
#pragma once

#include <stdexcept>
#include <string>

namespace dtfm {

/// Invalid usage or input (exit code 2). `where` is "file:line:column", a file, an option, or empty.
class Error : public std::runtime_error {
 public:
  Error(std::string where, const std::string& what);
  const std::string& where() const { return where_; }
  /// The message without `where`.
  const std::string& problem() const { return problem_; }

 private:
  std::string where_, problem_;
};

/// An internal error (exit code 1).
class BrokenInvariant : public std::logic_error {
  using std::logic_error::logic_error;
};

[[noreturn]] void report_broken_invariant(const char* condition, const char* file, int line);

}  // namespace dtfm

/// Checked in every build.
#define DTFM_ASSERT(condition) \
  ((condition) ? void(0) : ::dtfm::report_broken_invariant(#condition, __FILE__, __LINE__))
