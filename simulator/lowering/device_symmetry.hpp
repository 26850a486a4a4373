// Which devices of a plan represent others, so that a task graph needs the messages of only some devices.
#pragma once

#include <array>
#include <vector>

#include "core/base/index.hpp"

namespace dtfm::sim {

/// Number of flows that run concurrently and identically wherever a graph has one flow.
struct FlowCounts {
  double per_sender = 1;    // flows that leave the sender, its host, and over its entry of the topology
  double per_receiver = 1;  // flows that enter the receiver and its host
  double in_all = 1;        // flows from the one site to the other
};

/// The devices are divided into blocks, and interchangeable blocks into classes. Exchanging two blocks of a
/// class changes neither the plan nor the network, so that all of them do the same at the same time. The
/// graph contains the first block of every class, its representative. Messages between two blocks of one
/// class are represented by those from the first block to the second. Without entries, every device
/// represents only itself.
struct DeviceSymmetry {
  std::vector<int> block;           // [device]
  std::vector<int> representative;  // [device]: its counterpart in the first block of its class
  std::vector<int> twin;    // [device]: its counterpart in the second block; no_index if there is none
  std::vector<int> blocks;  // [device]: number of blocks in its class

  bool is_trivial() const { return block.empty(); }
  int representative_of(int device) const { return is_trivial() ? device : representative[at(device)]; }
  int blocks_of(int device) const { return is_trivial() ? 1 : blocks[at(device)]; }
  int twin_of(int device) const { return is_trivial() ? no_index : twin[at(device)]; }

  /// `from` is a representative; `to` is one too, or a twin.
  FlowCounts flow_counts(int from, int to) const {
    if (is_trivial()) return {};
    const double senders = blocks[at(from)], receivers = blocks[at(to)];
    if (block[at(from)] == block[at(to)]) return {1, 1, senders};
    if (representative[at(to)] == to) return {receivers, senders, senders * receivers};
    return {receivers - 1, senders - 1, senders * (receivers - 1)};
  }

  /// Number of devices that `representatives` represent, including themselves.
  int represented(const std::vector<int>& representatives) const {
    int sum = 0;
    for (const int device : representatives) sum += blocks_of(device);
    return sum;
  }

  /// The receivers of the messages that a graph needs if every device like `from` sends to every other device
  /// like `to`, both representatives. Some may be no_index.
  std::array<int, 2> receivers(int from, int to) const {
    const bool in_one_block = !is_trivial() && block[at(from)] == block[at(to)];
    return {from == to ? no_index : to, in_one_block ? twin[at(to)] : no_index};
  }
};

}  // namespace dtfm::sim
