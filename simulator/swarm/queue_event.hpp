// The events of the swarm simulation.
#pragma once

#include <cstdint>

#include "simulator/engine/event_queue.hpp"

namespace dtfm::sim {

/// `generation` identifies obsolete events: it is compared with a counter of the message, peer or slot that
/// grows when an activity is cancelled.
struct QueueEvent {
  enum class Kind : std::uint8_t {
    transfer_starts,  // the overhead of message `id` is over
    arrival,          // message `id` arrives
    computed,         // peer `id` finishes a computation
    failed,           // the trainer of slot `id` learns that its request has failed
    timeout,          // the request of slot `id` may have timed out
    refresh,          // trainer `id` reads the announcements
    averaged,         // stage `id` finishes averaging
    fetched,          // peer `id` has read its state from the checkpoint
    device_event,     // the next event of the scenario is due
    rebalance
  };
  Kind kind;
  int id = 0;
  std::uint32_t generation = 0;
};

using SwarmQueue = EventQueue<QueueEvent>;

}  // namespace dtfm::sim
