// What happens in a replay, in which order, and what it keeps of flows meanwhile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "simulator/graph/graph_network.hpp"

namespace dtfm::sim {

/// In the order in which they come at one instant; starts come after all of them.
enum Rank : unsigned { ends, failures, changes };

struct Event {
  enum class Kind : std::uint8_t { task_end, overhead_end, latency_end, down, up, change };
  Kind kind = Kind::task_end;
  int id = 0;  // a task; a failure; a profile
};

/// So far ahead tasks are fetched from memory: some events take as long as that (any number from 4 to 16
/// does).
inline constexpr std::size_t events_ahead = 8;

/// A flow or shared computation that the network moves; its end comes `tail` seconds after its last byte.
struct Moving {
  int task = 0;
  double tail = 0;
};

/// Terms of flows, by numbers that are used again.
class TermsPool {
 public:
  int keep(const FlowTerms& terms) {
    if (unused_.empty()) {
      terms_.push_back(terms);
      return static_cast<int>(terms_.size()) - 1;
    }
    const int place = unused_.back();
    unused_.pop_back();
    terms_[at(place)] = terms;
    return place;
  }
  FlowTerms take(int place) {
    unused_.push_back(place);
    return terms_[at(place)];
  }

 private:
  std::vector<FlowTerms> terms_;
  std::vector<int> unused_;
};

}  // namespace dtfm::sim
