// What happens next: a heap of events in the order of (date, rank, sequence number).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dtfm {

/// Events are not taken back: who is no longer interested recognises and drops what comes (lazy deletion).
/// Of one date, lower ranks come first; of one rank, what was put in first.
template <class Event>
class EventQueue {
 public:
  struct Entry {
    double date;
    std::uint64_t order;
    Event event;
  };

  void push(double date, unsigned rank, const Event& event) {
    const Entry entry{date, std::uint64_t{rank} << 56 | sequence_++, event};
    std::size_t hole = heap_.size();
    heap_.push_back(entry);
    for (std::size_t above; hole > 0; hole = above) {
      above = (hole - 1) / arity;
      if (!is_before(entry, heap_[above])) break;
      heap_[hole] = heap_[above];
    }
    heap_[hole] = entry;
  }
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  const Entry& next() const { return heap_.front(); }
  Event pop() {
    const Event event = heap_.front().event;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return event;
  }

 private:
  /// Fewer levels than two: the children of an entry lie side by side.
  static constexpr std::size_t arity = 4;

  static bool is_before(const Entry& a, const Entry& b) {
    return a.date != b.date ? a.date < b.date : a.order < b.order;
  }
  /// Puts `entry` in the place of the first and down to where it belongs.
  void sink(const Entry& entry) {
    const std::size_t size = heap_.size();
    std::size_t hole = 0;
    for (std::size_t child; (child = hole * arity + 1) < size; hole = child) {
      const std::size_t end = std::min(child + arity, size);
      for (std::size_t other = child + 1; other < end; ++other)
        if (is_before(heap_[other], heap_[child])) child = other;
      if (!is_before(heap_[child], entry)) break;
      heap_[hole] = heap_[child];
    }
    heap_[hole] = entry;
  }

  std::vector<Entry> heap_;
  std::uint64_t sequence_ = 0;
};

}  // namespace dtfm
