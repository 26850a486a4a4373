// Builds a task graph whose tasks and links are labelled.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "core/base/stop.hpp"
#include "simulator/lowering/activity.hpp"
#include "simulator/lowering/lowered_network.hpp"

namespace dtfm::sim {

struct DeviceTask {
  int device = no_index, task = no_index;
};

/// A graph, and what its tasks and links stand for.
struct LabelledGraph {
  TaskGraph graph;                // without names; host i is device i
  std::vector<TaskLabel> labels;  // [task]
  std::vector<LinkRole> links;    // [link]
  /// Of an iteration without a barrier: the delays before devices begin, and the tasks after which devices
  /// have completed it (simulator/iteration/device_starts.hpp). Empty if all begin at the same time.
  std::vector<DeviceTask> starts, ends;
};

/// Messages of one kind from one device to another, which are sent one after another.
struct Channel {
  int from = 0, to = 0, route = no_index, queue = no_index;
  bool both_ends_send = false;  // at the same time, on one connection
  /// The sender has been told that the receive is posted, so the transport adds no handshake.
  bool is_announced = false;
  double latencies = 1;  // how often a message takes its latency and overhead
};

class GraphBuilder {
 public:
  /// `topology` and `constants` must outlive this.
  GraphBuilder(const Topology& topology, const Calibration& constants, DeviceSymmetry symmetry = {})
      : topology_(topology),
        constants_(constants),
        network_(topology, constants, result_.graph, std::move(symmetry)) {}
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  const Topology& topology() const { return topology_; }
  const Calibration& constants() const { return constants_; }
  const DeviceSymmetry& symmetry() const { return network_.symmetry(); }
  /// The graph as built so far.
  const LabelledGraph& result() const { return result_; }
  void reserve(std::size_t tasks);
  /// Adding tasks throws WorkStopped once `stop`, which is called regularly, has returned true.
  void set_stop(StopFunction stop) { stop_ = std::move(stop); }
  /// Messages on a channel from a device to itself take no time.
  Channel channel(int from, int to, Activity kind);
  /// Whether the transport tells a sender that its receive is posted.
  bool announces(int from, int to) const;
  /// Whether a send of so many bytes ends when it begins.
  bool is_buffered(const Channel& channel, double bytes) const;

  // The following functions add a task that waits for the tasks of `after`, in which no_index is ignored, and
  // return its number.

  int compute(int device, double seconds, std::span<const int> after, TaskLabel label);
  int send(const Channel& channel, double bytes, std::span<const int> after, TaskLabel label);
  /// Adds `messages` messages with `bytes` in total, each sent when the previous one has arrived, as a single
  /// transfer that takes latency and overhead of every message. Changes of latency during the run affect only
  /// the latency of the last message.
  int send_sequentially(const Channel& channel, double bytes, double messages, std::span<const int> after,
                        TaskLabel label);
  int wait(double seconds, std::span<const int> after, TaskLabel label);
  /// Returns a task that waits for all `tasks`, which must not be empty; adds none if there is only one.
  int join(std::span<const int> tasks, TaskLabel label);
  /// Adds the delay before `device` begins the iteration: 0 s until set_starts sets it.
  int start(int device, TaskLabel label);
  /// Adds the fixed overhead of `seconds` after which `device` has completed the iteration.
  int end(int device, double seconds, std::span<const int> after, TaskLabel label);

  LabelledGraph take();

 private:
  /// Null if the topology has none, or if the devices are the same.
  const Transport* transport(int from, int to) const {
    return from == to ? nullptr : topology_.transport_between(from, to);
  }
  int add(const Task& task, std::span<const int> after, const TaskLabel& label);
  /// Adds the calibrated overhead of `messages` equal messages, and what the transport adds to them, to a
  /// task that sends them. When it starts, it also waits for the slow start of its connection.
  void add_transport(const Channel& channel, double messages, Task& task);

  const Topology& topology_;
  const Calibration& constants_;
  LabelledGraph result_;
  LoweredNetwork network_;
  StopFunction stop_;
  std::map<std::pair<Activity, std::pair<int, int>>, int> queues_;
  std::map<std::pair<int, int>, int> connections_;  // by sender and receiver
};

}  // namespace dtfm::sim
