// Min-heap that records the position of every entry, so that keys can be changed and entries erased.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/base/index.hpp"

namespace dtfm::sim {

/// Position of each id in its heap. Several heaps can share one table if every id is in at most one of them.
class HeapPositions {
 public:
  static constexpr int absent = -1;
  void grow(std::size_t ids) {
    if (positions_.size() < ids) positions_.resize(ids, absent);
  }
  int& operator[](int id) { return positions_[at(id)]; }

 private:
  std::vector<int> positions_;
};

class IndexedHeap {
 public:
  struct Entry {
    double key;
    int id;
  };

  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  const Entry& first() const { return heap_.front(); }

  /// Inserts the id, or changes its key.
  void set(int id, double key, HeapPositions& positions) {
    if (positions[id] == HeapPositions::absent) {
      heap_.push_back({});
      sift_up({key, id}, heap_.size() - 1, positions);
    } else {
      move({key, id}, at(positions[id]), positions);
    }
  }
  void erase(int id, HeapPositions& positions) {
    const int position = positions[id];
    if (position == HeapPositions::absent) return;
    positions[id] = HeapPositions::absent;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (last.id != id) move(last, at(position), positions);
  }
  /// Subtracts `amount` from all keys and calls `visit(entry)` for each changed entry.
  template <class Visit>
  void subtract_from_keys(double amount, const Visit& visit) {
    for (Entry& entry : heap_) {
      entry.key -= amount;
      visit(entry);
    }
  }

 private:
  /// An arity of 4 gives a flatter heap than 2, and the children of an entry are adjacent in memory.
  static constexpr std::size_t arity = 4;

  void move(const Entry& entry, std::size_t hole, HeapPositions& positions) {
    if (hole > 0 && entry.key < heap_[(hole - 1) / arity].key)
      sift_up(entry, hole, positions);
    else
      sift_down(entry, hole, positions);
  }
  void sift_up(const Entry& entry, std::size_t hole, HeapPositions& positions) {
    for (std::size_t parent; hole > 0; hole = parent) {
      parent = (hole - 1) / arity;
      if (!(entry.key < heap_[parent].key)) break;
      put(heap_[parent], hole, positions);
    }
    put(entry, hole, positions);
  }
  void sift_down(const Entry& entry, std::size_t hole, HeapPositions& positions) {
    for (std::size_t child; (child = hole * arity + 1) < heap_.size(); hole = child) {
      const std::size_t end = std::min(child + arity, heap_.size());
      for (std::size_t other = child + 1; other < end; ++other)
        if (heap_[other].key < heap_[child].key) child = other;
      if (!(heap_[child].key < entry.key)) break;
      put(heap_[child], hole, positions);
    }
    put(entry, hole, positions);
  }
  void put(const Entry& entry, std::size_t hole, HeapPositions& positions) {
    heap_[hole] = entry;
    positions[entry.id] = static_cast<int>(hole);
  }

  std::vector<Entry> heap_;
};

}  // namespace dtfm::sim
