// What the simulation of a swarm waits for.
#pragma once

#include <cstdint>

#include "simulator/engine/event_queue.hpp"

namespace dtfm::sim {

/// `mark` tells an event of what is still going on from one of what was broken off: it counts beside `id`
/// there.
struct QueueEvent {
  enum class Kind : std::uint8_t {
    transfer_starts,  // of message `id`: its overhead is over
    arrival,      // of message `id`
    computed,     // by peer `id`
    failed,       // the request of slot `id`: its trainer has the error
    timeout,      // of slot `id`, perhaps
    refresh,      // of trainer `id`
    averaged,     // by stage `id`
    fetched,      // from the checkpoint, by peer `id`
    device_event,        // the next event of the scenario
    rebalance
  };
  Kind kind;
  int id = 0;
  std::uint32_t generation = 0;
};

using SwarmQueue = EventQueue<QueueEvent>;

}  // namespace dtfm::sim
