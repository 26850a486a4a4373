// The events of a replay and their order.
#pragma once

#include <cstdint>

#include "simulator/engine/event_queue.hpp"

namespace dtfm::sim {

/// The order of events at the same time. Tasks start after all of these.
enum EventRank : unsigned { ends, failures, changes };

struct Event {
  /// task: its current phase ends; down, up: of a failure; change: a step of a profile.
  enum class Kind : std::uint8_t { task, down, up, change };
  Kind kind = Kind::task;
  int id = 0;  // the number of a task, failure or profile, depending on the kind
};

using ReplayQueue = EventQueue<Event>;

}  // namespace dtfm::sim
