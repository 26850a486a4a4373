// Messages of a swarm over the links of the topology, and what goes from site to site.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "planner/core/calibration.hpp"
#include "planner/core/topology.hpp"
#include "simulator/lowering/lowered_network.hpp"
#include "simulator/network/level_network.hpp"
#include "simulator/report/sim_report.hpp"
#include "simulator/swarm/queue_event.hpp"

namespace dtfm::sim {

/// Routes, overheads, latencies and rates are those of the rest of the simulator (lowered_network.hpp):
/// between hosts a message waits for its overhead, its bytes move, its latency comes after them. A message
/// that shares no link with any other, whatever comes, has one event, that of its arrival.
class SwarmNetwork {
 public:
  static constexpr int none = -1;
  struct Message {
    int from = 0, to = 0;  // devices
    int owner = 0;         // of the caller's
    int purpose = 0;       // of the caller's
    double bytes = 0;
    int path = none, first_use = 0, flow = none;
    std::uint32_t generation = 0;  // of its events
    bool is_active = false;
  };

  /// The arguments must outlive this.
  SwarmNetwork(const Topology& topology, const Calibration& constants, SwarmQueue& queue);

  /// Its number, which is reused when it has arrived or is cancelled. To the device itself it arrives at
  /// once, by an event all the same.
  int send(double now, int from, int to, double bytes, int owner, int purpose);
  /// Its bytes do not count.
  void cancel(int message, double now);
  const Message& message(int number) const { return messages_[at(number)]; }

  /// Whether the event is of a message that is still under way.
  bool is_current(const QueueEvent& event) const {
    const Message& it = messages_[at(event.id)];
    return it.is_active && it.generation == event.generation;
  }
  void begin_transfer(int message);
  /// Takes it from the network; what it was.
  Message arrive(int message, double now);

  void update_rates(double now) { fluid_.update_rates(now); }
  /// When the next bytes are through; infinite if none move.
  double next_end() const { return fluid_.ends().next().date; }
  /// Those are through; their latency comes.
  void end_next(double now);

  double latency_s(int from, int to) const {
    return from == to ? 0 : topology_.link(from, to).latency.value();
  }
  double overhead_s(int from, int to) const;

  /// Something else than messages goes from site to site: so many bytes, from `begin_traffic` on.
  void begin_traffic(int from_site, int to_site, double now);
  void end_traffic(int from_site, int to_site, double bytes, double now);
  /// Of each pair of sites that carried something, the most bytes first. What is under way counts its time.
  std::vector<LinkReport> reports(double now) const;

  long long messages_sent() const { return sent_; }
  long long shared_messages() const { return shared_; }
  long long link_updates() const { return fluid_.update_count(); }

 private:
  /// What many pairs of devices have in common: there may be a lot of pairs, and every message reads one.
  struct Path {
    double overhead = 0, latency = 0, rate = 0, weight = 1;  // rate: of the pair alone, bytes per second
    int use_count = 0;                                       // links shared with others
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
  std::vector<int> fluid_link_;  // of each link of the graph; none for those of a pair alone
  std::vector<Path> paths_;
  std::map<Path, int> path_numbers_;
  std::vector<int> uses_;                   // links of the fluid network
  std::vector<std::vector<Route>> routes_;  // [from][to], made when first asked for
  std::vector<int> sites_;                  // of each device
  std::vector<LinkUse> transfer_uses_;             // the links of a message that begins to move
  std::vector<Message> messages_;
  std::vector<int> unused_, message_of_flow_;
  std::vector<Traffic> traffic_;  // [from site][to site]
  long long sent_ = 0, shared_ = 0;
};

}  // namespace dtfm::sim
