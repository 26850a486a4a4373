// Priority queue that is fast when entries arrive in batches or nearly in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace dtfm::sim {

/// Entries that belong behind the end of the sorted run are collected unsorted until the run is used up; then
/// they are sorted in one go and become the next run. Entries that belong inside the run go through a heap.
/// Entries that arrive together or in order therefore cost far less than in a single heap. `IsBefore` is a
/// strict total order in which no two entries are equivalent.
template <class Entry, class IsBefore>
class LazyQueue {
 public:
  bool empty() const { return is_exhausted() && unsorted_.empty(); }
  std::size_t size() const { return sorted_run_.size() - consumed_ + heap_.size() + unsorted_.size(); }

  void push(const Entry& entry) {
    if (!is_exhausted() && is_before_(entry, sorted_run_.back()))
      sift_up(entry);
    else
      unsorted_.push_back(entry);
  }
  /// The queue must not be empty.
  const Entry& first() {
    if (is_exhausted()) sort_unsorted();
    return sorted_is_next() ? sorted_run_[consumed_] : heap_.front();
  }
  Entry pop() {
    const Entry entry = first();
    if (sorted_is_next()) {
      ++consumed_;
    } else {
      const Entry last = heap_.back();
      heap_.pop_back();
      if (!heap_.empty()) sift_down(last);
    }
    return entry;
  }

  /// Entry `k` of the rest of the sorted run, or null if the rest is shorter. Entries of the heap may come
  /// before it.
  const Entry* peek_sorted(std::size_t k) const {
    return k < sorted_run_.size() - consumed_ ? &sorted_run_[consumed_ + k] : nullptr;
  }

 private:
  /// An arity of 4 gives a flatter heap than 2, and the children of an entry are adjacent in memory.
  static constexpr std::size_t arity = 4;

  bool is_exhausted() const { return consumed_ == sorted_run_.size() && heap_.empty(); }
  bool sorted_is_next() const {
    return heap_.empty() ||
           (consumed_ < sorted_run_.size() && is_before_(sorted_run_[consumed_], heap_.front()));
  }
  void sort_unsorted() {
    sorted_run_.swap(unsorted_);
    unsorted_.clear();
    consumed_ = 0;
    if (!std::is_sorted(sorted_run_.begin(), sorted_run_.end(), is_before_))
      std::sort(sorted_run_.begin(), sorted_run_.end(), is_before_);
  }
  void sift_up(const Entry& entry) {
    std::size_t hole = heap_.size();
    heap_.push_back(entry);
    for (std::size_t parent; hole > 0; hole = parent) {
      parent = (hole - 1) / arity;
      if (!is_before_(entry, heap_[parent])) break;
      heap_[hole] = heap_[parent];
    }
    heap_[hole] = entry;
  }
  /// Replaces the first entry of the heap by `entry` and restores the heap order.
  void sift_down(const Entry& entry) {
    const std::size_t size = heap_.size();
    std::size_t hole = 0;
    for (std::size_t child; (child = hole * arity + 1) < size; hole = child) {
      const std::size_t end = std::min(child + arity, size);
      for (std::size_t other = child + 1; other < end; ++other)
        if (is_before_(heap_[other], heap_[child])) child = other;
      if (!is_before_(heap_[child], entry)) break;
      heap_[hole] = heap_[child];
    }
    heap_[hole] = entry;
  }

  [[no_unique_address]] IsBefore is_before_;
  std::vector<Entry> sorted_run_;  // the first `consumed_` entries are gone; later ones are in `unsorted_`
  std::size_t consumed_ = 0;
  std::vector<Entry> heap_, unsorted_;
};

}  // namespace dtfm::sim
