// Priority queue of events, ordered by (time, rank, sequence number).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include "simulator/engine/lazy_queue.hpp"

namespace dtfm::sim {

/// Events cannot be removed: the receiver recognises and ignores those that are obsolete (lazy deletion). At
/// equal times lower ranks come first; events of equal rank come in the order in which they were pushed.
template <class Event>
class EventQueue {
 public:
  void push(double date, unsigned priority, const Event& event) {
    queue_.push({date, std::uint64_t{priority} << 56 | sequence_++, event});
  }
  bool empty() const { return queue_.empty(); }
  std::size_t size() const { return queue_.size(); }
  /// Infinite if the queue is empty.
  double next_date() {
    return queue_.empty() ? std::numeric_limits<double>::infinity() : queue_.first().date;
  }
  /// An event that comes `k` positions after the next one, or later; null if finding it would need sorting.
  const Event* peek_sorted(std::size_t k) const {
    const Entry* entry = queue_.peek_sorted(k);
    return entry ? &entry->event : nullptr;
  }
  Event pop() { return queue_.pop().event; }

 private:
  struct Entry {
    double date;
    std::uint64_t order;
    Event event;
  };
  struct IsBefore {
    bool operator()(const Entry& a, const Entry& b) const {
      return a.date != b.date ? a.date < b.date : a.order < b.order;
    }
  };

  LazyQueue<Entry, IsBefore> queue_;
  std::uint64_t sequence_ = 0;
};

}  // namespace dtfm::sim
