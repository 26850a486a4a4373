// How long replicas take to add up their gradients.
#pragma once

#include <utility>
#include <vector>

#include "planner/core/gradient_sync.hpp"
#include "planner/cost/iteration_time/network_cost.hpp"

namespace dtfm::cost {

/// One exchange, by the definitions of the algorithms, of which the simulator says the closed forms where all
/// links are equal. Messages that pass a shared capacity have, for the seconds that all bytes of one phase of
/// this exchange take there, no less than those.
class GradientSyncTime {
 public:
  GradientSyncTime(const Topology& topology, const NetworkCost& network)
      : topology_(topology), network_(network), load_(static_cast<std::size_t>(network.shared_count())) {}

  /// Seconds from its start until each of `devices` (at least two) has the sum of `bytes`. Throws Error for
  /// an algorithm that jobs may not name.
  std::vector<double> completion_times(GradientSync sync, const std::vector<int>& devices, double bytes);
  /// From now on, so many exchanges like it pass each shared capacity at the same time; none said: this
  /// alone.
  void set_concurrent_syncs(std::vector<int> syncs) { concurrent_messages_ = std::move(syncs); }
  /// Of the last call: bytes over shared capacities, by number; `used` are those that are not 0.
  const std::vector<double>& load() const { return load_; }
  const std::vector<int>& used() const { return used_; }
  /// Of the last call: what its messages cost.
  double usd() const { return usd_; }
  /// What goes from one device (by its index) to another: from when on after the start, and how long that
  /// takes the sender.
  struct Transfer {
    int from = 0, to = 0;
    double begin_s = 0, occupancy_s = 0;
  };
  /// Where all exchanges between two of these devices are between all of them, what is slowest of that which
  /// begins together may stand for all (as if from the first device to itself): it is what the next ones of
  /// all wait for.
  enum class TransferDetail { none, slowest, all };
  /// From now on.
  void record_transfers(TransferDetail transfers) { recorded_detail_ = transfers; }
  TransferDetail recorded_transfers() const { return recorded_detail_; }
  /// Of the last call, as asked for before.
  const std::vector<Transfer>& transfers() const { return transfers_; }
  /// Of the last call: how many of its first messages pass a shared capacity at once.
  const std::vector<std::pair<int, double>>& first_messages() const { return first_messages_; }

 private:
  struct Message {
    int from = 0, to = 0;  // indices into the devices
    double count = 1;      // of messages like it
  };
  struct Group {  // devices of a kind: two of them, by their indices, and how many there are
    int first = 0, second = -1, count = 0;
  };
  void begin(const std::vector<int>& devices);
  /// Counts messages of `bytes` each that move at the same time, so many times one after the other.
  void count(const std::vector<Message>& messages, double bytes, double times = 1);
  /// Of such a message.
  double seconds(int from, int to, double bytes) const;
  /// Tells of a message that begins then and takes `seconds`, so many times.
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
  std::vector<double> load_;  // of the exchange
  double usd_ = 0;
  std::vector<double> phase_;  // of messages that move at the same time
  std::vector<int> used_, used_in_phase_, concurrent_messages_;
  std::vector<SharedPath> paths_;  // of the messages counted last
  std::vector<std::pair<int, double>> first_messages_;
  // Of sharded_ps: groups, by kind and of each device; messages between them; by sender × receiver, their
  // seconds, and those until they have left.
  std::vector<Group> groups_;
  std::vector<int> group_of_kind_, group_;
  std::vector<Message> all_;
  std::vector<double> all_s_, all_sent_s_;
  TransferDetail recorded_detail_ = TransferDetail::none;
  std::vector<Transfer> transfers_;
};

}  // namespace dtfm::cost
