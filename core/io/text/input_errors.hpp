// Collects the errors of an input file, so that a user sees all of them at once.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"

namespace dtfm::io {

class InputErrors {
 public:
  /// `where` is "file:line:column", a file or an option.
  void add(const std::string& where, const std::string& what);
  /// The same for messages that are expensive to build: `what` is called only if the message will be
  /// reported.
  void add(const std::string& where, const std::function<std::string()>& what);
  void add(const Error& error);
  bool empty() const { return count_ == 0; }
  /// Throws one Error if any error was added. It is located at the first of them and lists up to twenty, one
  /// per line, then the number of the others, then `closing` unless that is empty.
  void throw_if_any(const std::string& closing = "") const;

 private:
  std::vector<std::pair<std::string, std::string>> reported_;  // where, what
  std::size_t count_ = 0;
};

}  // namespace dtfm::io
