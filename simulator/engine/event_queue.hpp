// What happens next: a binary heap of events in the order of (date, rank, sequence number).
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
    heap_.push_back({date, std::uint64_t{rank} << 56 | sequence_++, event});
    std::push_heap(heap_.begin(), heap_.end(), comes_later);
  }
  bool empty() const { return heap_.empty(); }
  std::size_t size() const { return heap_.size(); }
  const Entry& next() const { return heap_.front(); }
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), comes_later);
    const Event event = heap_.back().event;
    heap_.pop_back();
    return event;
  }

 private:
  static bool comes_later(const Entry& a, const Entry& b) {
    return a.date != b.date ? a.date > b.date : a.order > b.order;
  }

  std::vector<Entry> heap_;
  std::uint64_t sequence_ = 0;
};

}  // namespace dtfm
