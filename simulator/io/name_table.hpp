// Maps names to numbers, for millions of names.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/base/index.hpp"

namespace dtfm::io {

/// Names get the numbers 0, 1, … in the order in which they are added. The text that contains them must
/// outlive this.
class NameTable {
 public:
  /// The number of a name; −1 for an unknown one.
  int find(std::string_view name) const { return cells_.empty() ? -1 : cells_[cell_of(name)]; }
  /// The number of a name, which is added if it is new.
  int add(std::string_view name) {
    if (names_.size() * 2 >= cells_.size()) grow();
    int& cell = cells_[cell_of(name)];
    if (cell < 0) {
      cell = static_cast<int>(names_.size());
      names_.push_back(name);
    }
    return cell;
  }
  const std::vector<std::string_view>& names() const { return names_; }

 private:
  /// The cell of a name, or the empty cell for it: FNV-1a hash, open addressing with linear probing.
  std::size_t cell_of(std::string_view name) const {
    std::uint64_t hash = 0xcbf29ce484222325;
    for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    std::size_t cell = (hash ^ hash >> 32) & (cells_.size() - 1);
    while (cells_[cell] >= 0 && names_[at(cells_[cell])] != name) cell = (cell + 1) & (cells_.size() - 1);
    return cell;
  }
  void grow() {
    cells_.assign(cells_.empty() ? 16 : cells_.size() * 2, -1);
    for (std::size_t i = 0; i < names_.size(); ++i) cells_[cell_of(names_[i])] = static_cast<int>(i);
  }

  std::vector<std::string_view> names_;
  std::vector<int> cells_;  // numbers of names, or −1; the size is a power of two
};

}  // namespace dtfm::io
