// Messages of a swarm over the links of the topology, and the traffic between sites.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "core/cluster/calibration.hpp"
#include "core/cluster/topology.hpp"
#include "simulator/lowering/lowered_network.hpp"
#include "simulator/network/level_network.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/swarm/queue_event.hpp"

namespace dtfm::sim {

/// Routes, overheads, latencies and rates are those of the rest of the simulator (lowered_network.hpp). A
/// message between hosts first waits for its overhead, then its bytes move, then its latency passes. A
/// message that can never share a link with others needs only one event, its arrival.
class SwarmNetwork {
 public:
  static constexpr int none = -1;
  struct Message {
    int from = 0, to = 0;  // devices
    int owner = 0;         // chosen by the caller
    int purpose = 0;       // chosen by the caller
    double bytes = 0;
    int path = none, first_use = 0, flow = none;
    std::uint32_t generation = 0;  // of its current events
    bool is_active = false;
  };

  /// The arguments must outlive this.
  SwarmNetwork(const Topology& topology, const Calibration& constants, SwarmQueue& queue);

  /// Sends a message and returns its number, which is reused after the message has arrived or is cancelled. A
  /// message from a device to itself arrives immediately, but also by an event.
  int send(double now, int from, int to, double bytes, int owner, int purpose);
  /// Cancels a message, whose bytes are not counted as traffic.
  void cancel(int message, double now);
  const Message& message(int number) const { return messages_[at(number)]; }

  /// Whether the event belongs to a message that is still in transit.
  bool is_current(const QueueEvent& event) const {
    const Message& it = messages_[at(event.id)];
    return it.is_active && it.generation == event.generation;
  }
  void begin_transfer(int message);
  /// Removes a message that has arrived from the network and returns it.
  Message arrive(int message, double now);

  void update_rates(double now) { fluid_.update_rates(now); }
  /// The time (s) at which the next message has sent its last byte; infinite if no bytes are moving.
  double next_end() const { return fluid_.ends().next().date; }
  /// Ends the transfer of that message, whose latency follows.
  void end_next(double now);

  double latency_s(int from, int to) const {
    return from == to ? 0 : topology_.link(from, to).latency.value();
  }
  double overhead_s(int from, int to) const;

  /// Adds traffic between sites that does not consist of messages: `bytes` between the calls of
  /// `begin_traffic` and `end_traffic`.
  void begin_traffic(int from_site, int to_site, double now);
  void end_traffic(int from_site, int to_site, double bytes, double now);
  /// The traffic of each pair of sites that had any, the most bytes first. Messages in transit count with
  /// their time but not their bytes.
  std::vector<LinkReport> reports(double now) const;

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
  void free(int message, double now, double bytes);
  int site(int device) const { return sites_[at(device)]; }
  Traffic& traffic(int from_site, int to_site) {
    return traffic_[at(from_site) * topology_.sites.size() + at(to_site)];
  }

  const Topology& topology_;
  const Calibration& constants_;
  SwarmQueue& queue_;
  TaskGraph graph_;
  LoweredNetwork lowered_;
  LevelNetwork fluid_;
  std::vector<int> fluid_link_;  // [link of the graph]; none for links that limit each flow separately
  std::vector<Path> paths_;
  std::map<Path, int> path_numbers_;
  std::vector<int> uses_;                   // links of the fluid network
  std::vector<std::vector<Route>> routes_;  // [from][to], created on first use
  std::vector<int> sites_;                  // [device]
  std::vector<LinkUse> transfer_uses_;      // scratch: the links of a message that starts its transfer
  std::vector<Message> messages_;
  std::vector<int> unused_, message_of_flow_;
  std::vector<Traffic> traffic_;  // [from site][to site]
  long long sent_ = 0, shared_ = 0;
};

}  // namespace dtfm::sim
