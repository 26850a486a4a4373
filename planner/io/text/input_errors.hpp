// What is wrong with a file, collected so that all of it is told at once.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "planner/core/error.hpp"

namespace dtfm::io {

class InputErrors {
 public:
  /// `where`: "file:line:column", a file or an option.
  void add(const std::string& where, const std::string& what);
  /// The same, for texts that take time: it is not asked for one that would not be told.
  void add(const std::string& where, const std::function<std::string()>& what);
  void add(const Error& error);
  bool empty() const { return count_ == 0; }
  /// Throws Error at the first fault, if there is one; each of the others has a line of its own in it, up to
  /// twenty, then how many more there are, then `closing`, where it is not empty.
  void throw_if_any(const std::string& closing = "") const;

 private:
  std::vector<std::pair<std::string, std::string>> reported_;  // where, what
  std::size_t count_ = 0;
};

}  // namespace dtfm::io
