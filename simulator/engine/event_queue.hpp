// What happens next, in the order of (date, rank, sequence number).
#pragma once

#include <cstddef>
#include <cstdint>

#include "simulator/engine/lazy_queue.hpp"

namespace dtfm::sim {

/// Events are not taken back: who is no longer interested recognises and drops what comes (lazy deletion).
/// Of one date, lower ranks come first; of one rank, what was put in first.
template <class Event>
class EventQueue {
 public:
  void push(double date, unsigned priority, const Event& event) {
    queue_.push({date, std::uint64_t{priority} << 56 | sequence_++, event});
  }
  bool empty() const { return queue_.empty(); }
  std::size_t size() const { return queue_.size(); }
  double next_date() { return queue_.first().date; }
  /// The event that comes `k` after the next one, or later; null where that is not known without sorting.
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
