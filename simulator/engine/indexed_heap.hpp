// The least of some keys that change: a heap that knows where each entry is.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "planner/core/index.hpp"

namespace dtfm::sim {

/// Many heaps can share one table of places, if every id is in one of them at most.
class HeapPlaces {
 public:
  static constexpr int nowhere = -1;
  void grow(std::size_t ids) {
    if (places_.size() < ids) places_.resize(ids, nowhere);
  }
  int& operator[](int id) { return places_[at(id)]; }

 private:
  std::vector<int> places_;
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

  /// Puts the id in, or gives it another key.
  void set(int id, double key, HeapPlaces& places) {
    if (places[id] == HeapPlaces::nowhere) {
      heap_.push_back({});
      rise({key, id}, heap_.size() - 1, places);
    } else {
      move({key, id}, at(places[id]), places);
    }
  }
  void erase(int id, HeapPlaces& places) {
    const int place = places[id];
    if (place == HeapPlaces::nowhere) return;
    places[id] = HeapPlaces::nowhere;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (last.id != id) move(last, at(place), places);
  }
  /// Makes all keys smaller by the same, and calls `visit(entry)` with each.
  template <class Visit>
  void lower(double by, const Visit& visit) {
    for (Entry& entry : heap_) {
      entry.key -= by;
      visit(entry);
    }
  }

 private:
  /// Fewer levels than two: the children of an entry lie side by side.
  static constexpr std::size_t arity = 4;

  void move(const Entry& entry, std::size_t hole, HeapPlaces& places) {
    if (hole > 0 && entry.key < heap_[(hole - 1) / arity].key)
      rise(entry, hole, places);
    else
      sink(entry, hole, places);
  }
  void rise(const Entry& entry, std::size_t hole, HeapPlaces& places) {
    for (std::size_t above; hole > 0; hole = above) {
      above = (hole - 1) / arity;
      if (!(entry.key < heap_[above].key)) break;
      put(heap_[above], hole, places);
    }
    put(entry, hole, places);
  }
  void sink(const Entry& entry, std::size_t hole, HeapPlaces& places) {
    for (std::size_t child; (child = hole * arity + 1) < heap_.size(); hole = child) {
      const std::size_t end = std::min(child + arity, heap_.size());
      for (std::size_t other = child + 1; other < end; ++other)
        if (heap_[other].key < heap_[child].key) child = other;
      if (!(heap_[child].key < entry.key)) break;
      put(heap_[child], hole, places);
    }
    put(entry, hole, places);
  }
  void put(const Entry& entry, std::size_t hole, HeapPlaces& places) {
    heap_[hole] = entry;
    places[entry.id] = static_cast<int>(hole);
  }

  std::vector<Entry> heap_;
};

}  // namespace dtfm::sim
