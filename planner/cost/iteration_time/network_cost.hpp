// Cost of messages, with and without contention. These formulas are independent of the simulator's.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "planner/core/calibration.hpp"
#include "planner/core/shared.hpp"
#include "planner/core/topology.hpp"

namespace dtfm::cost {

/// Cost of a message between two devices without contention. The sender is busy for `occupancy_s`, and the
/// message arrives `latency_s` later.
struct MessageCost {
  double overhead_s = 0, seconds_per_byte = 0, latency_s = 0;

  friend bool operator==(const MessageCost&, const MessageCost&) = default;
  double occupancy_s(double bytes) const { return overhead_s + bytes * seconds_per_byte; }
  double total_s(double bytes) const { return occupancy_s(bytes) + latency_s; }
};

/// Ids of the shared capacities that a message crosses, as a range.
class SharedPath {
 public:
  void add(int id) {
    if (id >= 0) ids_[count_++] = id;
  }
  friend bool operator==(const SharedPath&, const SharedPath&) = default;
  const int* begin() const { return ids_.data(); }
  const int* end() const { return ids_.data() + count_; }

 private:
  std::array<int, 8> ids_{};  // at most one per kind of capacity
  std::size_t count_ = 0;
};

class NetworkCost {
 public:
  NetworkCost(Shared<Topology> topology, const Calibration& calibration);

  /// A message from a device to itself takes no time.
  MessageCost message(int from, int to) const {
    return pairs_.empty() ? computed(from, to) : pairs_[pair(from, to)];
  }
  /// Number of shared capacities; their ids start at 0. If it is 0, there is no contention.
  int shared_count() const { return static_cast<int>(seconds_per_byte_.size()); }
  double shared_seconds_per_byte(int id) const { return seconds_per_byte_[static_cast<std::size_t>(id)]; }
  /// Shared capacities that a message crosses. `from` and `to` must differ.
  SharedPath shared(int from, int to) const;
  /// Devices of one kind are interchangeable: messages to any other device, and between them, cost the same
  /// and cross the same capacities. Kinds are numbered from 0.
  int kind(int device) const { return kind_[static_cast<std::size_t>(device)]; }
  /// Whether any link charges for egress. If not, `usd_per_byte` is always 0.
  bool is_priced() const { return is_priced_; }
  double usd_per_byte(int from, int to) const {
    return is_priced_ ? topology_->link(from, to).egress.value() : 0;
  }

 private:
  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * topology_->devices.size() + static_cast<std::size_t>(to);
  }
  std::size_t site_pair(int from, int to) const;
  MessageCost computed(int from, int to) const;
  int capacity_id(BitsPerSecond capacity);
  void number_senders();
  void number_site_pairs();
  void number_ends();
  bool are_interchangeable(int from, int to, int other_from, int other_to) const;
  bool are_interchangeable(int device, int other) const;
  void number_kinds();

  Shared<Topology> topology_;
  double efficiency_, overhead_s_;
  bool is_priced_ = false;
  std::vector<double> seconds_per_byte_;  // by capacity id
  // Capacity ids, −1 for none.
  std::vector<int> sender_capacity_;               // [device × rules + rule]
  std::array<std::vector<int>, 2> pair_capacity_;  // between hosts, inside hosts: [site × sites + site]
  std::vector<int> up_, down_, host_up_, host_down_, site_up_, site_down_;
  std::vector<int> kind_;           // by device
  std::vector<MessageCost> pairs_;  // by sender and receiver; empty if there are too many devices
};

}  // namespace dtfm::cost
