// Time of gradient synchronization among the replicas of a group.
#pragma once

#include <utility>
#include <vector>

#include "planner/core/gradient_sync.hpp"
#include "planner/cost/iteration_time/network_cost.hpp"

namespace dtfm::cost {

/// Time of one gradient synchronization, evaluated message by message from the definition of each algorithm.
/// A message that crosses a shared capacity takes at least as long as that capacity needs for all bytes of
/// the same phase of this synchronization.
class GradientSyncTime {
 public:
  GradientSyncTime(const Topology& topology, const NetworkCost& network)
      : topology_(topology), network_(network), load_(static_cast<std::size_t>(network.shared_count())) {}

  /// Seconds from the start until each of `devices` (at least two) has the sum of `bytes`, in the order of
  /// `devices`. Throws Error for an algorithm that jobs may not name.
  std::vector<double> completion_times(GradientSync sync, const std::vector<int>& devices, double bytes);
  /// Sets how many synchronizations like this one cross each shared capacity concurrently, by capacity id,
  /// for all later calls. Empty: this one alone.
  void set_concurrent_syncs(std::vector<int> syncs) { concurrent_messages_ = std::move(syncs); }
  /// Bytes that the last call sent over each shared capacity, by id; `used` lists the ids with bytes.
  const std::vector<double>& load() const { return load_; }
  const std::vector<int>& used() const { return used_; }
  /// Egress of the last call in USD.
  double usd() const { return usd_; }
  /// One device (by index into `devices`) sends to another: begin in seconds after the start, and how long
  /// the sender is occupied.
  struct Transfer {
    int from = 0, to = 0;
    double begin_s = 0, occupancy_s = 0;
  };
  /// Which transfers to record. `slowest` records a single transfer, from the first device to itself, for the
  /// slowest message of those that start together. It suffices if every synchronization that involves two of
  /// these devices involves all of them, since the next one waits for the slowest.
  enum class TransferDetail { none, slowest, all };
  /// Applies to all later calls.
  void record_transfers(TransferDetail transfers) { recorded_detail_ = transfers; }
  TransferDetail recorded_transfers() const { return recorded_detail_; }
  /// Transfers of the last call, as selected by `record_transfers`.
  const std::vector<Transfer>& transfers() const { return transfers_; }
  /// Pairs of capacity id and number of messages that cross it concurrently in the first phase of the last
  /// call.
  const std::vector<std::pair<int, double>>& first_messages() const { return first_messages_; }

 private:
  struct Message {
    int from = 0, to = 0;  // indices into devices_
    double count = 1;      // number of messages that it stands for
  };
  struct Group {  // devices of one kind: indices of two of them, and their number
    int first = 0, second = -1, count = 0;
  };
  void begin(const std::vector<int>& devices);
  /// Adds the load and the egress of messages of `bytes` each that are sent concurrently, `times` in a row.
  void count(const std::vector<Message>& messages, double bytes, double times = 1);
  /// Seconds of one of the messages counted last.
  double seconds(int from, int to, double bytes) const;
  /// Records a message that starts at `begin_s` and takes `seconds`, `times` in a row.
  void transfer(int from, int to, double begin_s, double seconds, double times = 1);
  double occupancy_s(const MessageCost& cost, const SharedPath& path, double bytes) const;
  double latency_s(int from, int to) const;
  void find_groups();
  void list_messages();
  void time_alone(double bytes);
  std::vector<double> sharded_ps(double bytes);
  std::vector<double> central_ps(double bytes);
  std::vector<double> tree(double bytes);
  double gather_at(int to, std::vector<int> senders, const std::vector<double>& ready,
                   const std::vector<double>& alone, double bytes);
  std::vector<double> hierarchical(double bytes);
  void ring_all_reduce(const std::vector<int>& members, std::vector<double>& ready, double bytes);

  const Topology& topology_;
  const NetworkCost& network_;
  std::vector<int> devices_;
  std::vector<double> load_;  // bytes by capacity id, of the whole synchronization
  double usd_ = 0;
  std::vector<double> phase_;  // bytes by capacity id, of concurrent messages
  std::vector<int> used_, used_in_phase_, concurrent_messages_;
  std::vector<SharedPath> paths_;  // of the messages counted last
  std::vector<std::pair<int, double>> first_messages_;
  // Only for sharded_ps: the groups, by kind and by device; the messages between them; by sender × receiver,
  // the seconds until a message arrives and until it has left the sender.
  std::vector<Group> groups_;
  std::vector<int> group_of_kind_, group_;
  std::vector<Message> all_;
  std::vector<double> all_s_, all_sent_s_;
  TransferDetail recorded_detail_ = TransferDetail::none;
  std::vector<Transfer> transfers_;
};

}  // namespace dtfm::cost
