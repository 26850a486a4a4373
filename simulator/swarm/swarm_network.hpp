// Messages of a swarm over the links of the topology, and the traffic between sites.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/cluster/topology.hpp"
#include "simulator/lowering/lowered_network.hpp"
#include "simulator/network/level_network.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/swarm/swarm_context.hpp"

namespace dtfm::sim {

/// Routes, overheads, latencies and rates are those of the rest of the simulator (lowered_network.hpp). A
/// message between hosts first waits for its overhead, then its bytes move, then its latency passes. A
/// message that can never share a link with others needs only one event, its arrival.
class SwarmNetwork {
 public:
  static constexpr int none = -1;
  enum class Purpose {
    request_input,  // from the trainer of a slot to its peer
    peer_input,     // from another peer to it
    reply,          // from it to the trainer
    state_download  // the state of a stage
  };
  struct Message {
    int from = 0, to = 0;  // devices
    int owner = 0;         // the peer that downloads, or the slot
    Purpose purpose = Purpose::reply;
    double bytes = 0;
    int path = none, first_use = 0, flow = none;
    std::uint32_t generation = 0;  // of its current events
    bool is_active = false;
  };

  /// The context must outlive this.
  explicit SwarmNetwork(SwarmContext& run);

  /// Sends a message and returns its number, which is reused after the message has arrived or is cancelled. A
  /// message from a device to itself arrives immediately, but also by an event.
  int send(int from, int to, double bytes, int owner, Purpose purpose);
  /// Cancels a message, whose bytes are not counted as traffic.
  void cancel(int message);
  const Message& message(int number) const { return messages_[at(number)]; }

  /// Whether the event belongs to a message that is still in transit.
  bool is_current(const QueueEvent& event) const {
    const Message& it = messages_[at(event.id)];
    return it.is_active && it.generation == event.generation;
  }
  void begin_transfer(int message);
  /// Removes a message that has arrived from the network and returns it.
  Message arrive(int message);

  void update_rates() { fluid_.update_rates(run_.now); }
  /// The time (s) at which the next message has sent its last byte; infinite if no bytes are moving.
  double next_end() const { return fluid_.ends().next().date; }
  /// Ends the transfer of that message, whose latency follows.
  void end_next();

  double latency_s(int from, int to) const {
    return from == to ? 0 : topology_.link(from, to).latency.value();
  }

  /// Adds traffic between sites that does not consist of messages: `bytes` between the calls of
  /// `begin_traffic` and `end_traffic`.
  void begin_traffic(int from_site, int to_site);
  void end_traffic(int from_site, int to_site, double bytes);
  /// The traffic of each pair of sites that had any, the most bytes first. Messages in transit count with
  /// their time but not their bytes.
  std::vector<LinkReport> reports() const;

  long long messages_sent() const { return sent_; }
  long long shared_messages() const { return shared_; }
  long long link_updates() const { return fluid_.update_count(); }

 private:
  /// Parameters that many pairs of devices have in common. They are stored once because there may be many
  /// pairs and every message reads them.
  struct Path {
    double overhead = 0, latency = 0;  // s
    double rate = 0;                   // rate cap by links that only this pair uses, bytes per second
    double weight = 1;
    int use_count = 0;  // number of links shared with other pairs
    auto operator<=>(const Path&) const = default;
  };
  struct Route {
    int path = none, first_use = 0;
  };
  struct Traffic {
    double bytes = 0, busy = 0, since = 0;
    int active = 0;
  };

  Route route(int from, int to);
  Route new_route(int from, int to);
  int new_message();
  void free(int message, double bytes);
  int site(int device) const { return topology_.devices[at(device)].site; }
  Traffic& traffic(int from_site, int to_site) {
    return traffic_[at(from_site) * topology_.sites.size() + at(to_site)];
  }

  SwarmContext& run_;
  const Topology& topology_;
  TaskGraph graph_;
  LoweredNetwork lowered_;
  LevelNetwork fluid_;
  std::vector<int> fluid_link_;  // [link of the graph]; none for links that limit each flow separately
  std::vector<Path> paths_;
  std::map<Path, int> path_numbers_;
  std::vector<int> uses_;                   // links of the fluid network
  std::vector<std::vector<Route>> routes_;  // [from][to], created on first use
  std::vector<LinkUse> transfer_uses_;      // scratch: the links of a message that starts its transfer
  std::vector<Message> messages_;
  std::vector<int> unused_, message_of_flow_;
  std::vector<Traffic> traffic_;  // [from site][to site]
  long long sent_ = 0, shared_ = 0;
};

}  // namespace dtfm::sim
