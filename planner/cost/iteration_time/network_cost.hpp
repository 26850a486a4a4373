// Cost of messages, with and without contention. These formulas are independent of the simulator's.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/cluster/calibration.hpp"
#include "core/base/shared.hpp"
#include "core/cluster/topology.hpp"

namespace dtfm::cost {

/// Cost of a message between two devices without contention. The sender is busy for `occupancy_s`, and the
/// message arrives `latency_s` later.
struct MessageCost {
  double overhead_s = 0, seconds_per_byte = 0, latency_s = 0;

  friend bool operator==(const MessageCost&, const MessageCost&) = default;
  double occupancy_s(double bytes) const { return overhead_s + bytes * seconds_per_byte; }
  double total_s(double bytes) const { return occupancy_s(bytes) + latency_s; }
};

/// Which messages share a capacity: those of one device, of all devices of one host, or of many hosts.
enum class CapacityOwner { sender, sender_host, receiver, receiver_host, many };

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
    if (by_kind_[0].empty()) return computed(from, to);
    if (from == to) return {};
    return by_kind_[is_inside(from, to) ? 1 : 0][kind_pair(from, to)];
  }
  /// A message between two hosts that these pairs of devices, which must not be empty, send in equal parts at
  /// the same time (HostChannels).
  MessageCost message_in_parts(std::span<const std::pair<int, int>> pairs) const;
  /// Seconds per byte of the narrowest capacity that all messages between the hosts of two devices share.
  double joint_seconds_per_byte(int from, int to) const;
  /// Number of shared capacities; their ids start at 0. If it is 0, there is no contention.
  int shared_count() const { return static_cast<int>(capacities_.size()); }
  double shared_seconds_per_byte(int id) const {
    return capacities_[static_cast<std::size_t>(id)].seconds_per_byte;
  }
  CapacityOwner owner(int id) const { return capacities_[static_cast<std::size_t>(id)].owner; }
  /// Shared capacities that a message crosses. `from` and `to` must differ.
  SharedPath shared(int from, int to) const;
  /// Devices of one kind are interchangeable, except in messages to devices on their own hosts: messages to
  /// and from any device of another host cost the same and cross the same capacities of many hosts, and the
  /// capacities of the devices and of their hosts are equally large. Kinds are numbered from 0.
  int kind(int device) const { return kind_[static_cast<std::size_t>(device)]; }
  std::size_t kinds() const { return kinds_; }
  /// Whether there are devices that only measured links distinguish, and few enough coarse kinds for a table.
  bool has_coarse_kinds() const { return !by_coarse_kind_.empty(); }
  /// Devices of one coarse kind are at one site, and only measured links distinguish them.
  int coarse_kind(int device) const { return coarse_kind_[static_cast<std::size_t>(device)]; }
  /// The worst message of the topology between devices of these coarse kinds. Requires has_coarse_kinds.
  const MessageCost& coarse_message(int from, int to) const { return by_coarse_kind_[coarse_pair(from, to)]; }
  /// Whether any link charges for egress. If not, `usd_per_byte` is always 0.
  bool is_priced() const { return is_priced_; }
  double usd_per_byte(int from, int to) const {
    return is_priced_ ? topology_->link(from, to).egress.value() : 0;
  }

 private:
  struct Capacity {
    double seconds_per_byte = 0;
    CapacityOwner owner = CapacityOwner::many;
  };
  bool is_inside(int from, int to) const {
    return host_[static_cast<std::size_t>(from)] == host_[static_cast<std::size_t>(to)];
  }
  std::size_t kind_pair(int from, int to) const {
    return static_cast<std::size_t>(kind(from)) * kinds_ + static_cast<std::size_t>(kind(to));
  }
  std::size_t coarse_pair(int from, int to) const {
    return static_cast<std::size_t>(coarse_kind(from)) * coarse_kinds_ +
           static_cast<std::size_t>(coarse_kind(to));
  }
  std::size_t site_pair(int from, int to) const;
  MessageCost computed(int from, int to) const;
  int add_capacity(BitsPerSecond capacity, CapacityOwner owner);
  void number_senders();
  void number_site_pairs();
  void number_ends();
  bool have_equal_links(int device, int other) const;
  void number_kinds();
  void tabulate_messages();

  Shared<Topology> topology_;
  Calibration constants_;
  bool is_priced_ = false;
  std::vector<Capacity> capacities_;  // by id
  // Capacity ids, −1 for none.
  std::vector<int> sender_capacity_;               // [device × rules + rule]
  std::array<std::vector<int>, 2> pair_capacity_;  // between hosts, inside hosts: [site × sites + site]
  std::vector<int> up_, down_, host_up_, host_down_, site_up_, site_down_;
  std::vector<int> host_, kind_, coarse_kind_;  // by device
  std::size_t kinds_ = 0, coarse_kinds_ = 0;
  // Between hosts, inside hosts: [sender's kind × kinds + receiver's kind]. Empty if there are too many
  // kinds; the second also if no host has two devices.
  std::array<std::vector<MessageCost>, 2> by_kind_;
  std::vector<MessageCost> by_coarse_kind_;  // likewise
};

}  // namespace dtfm::cost
