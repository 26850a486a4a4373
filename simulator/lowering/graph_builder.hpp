// Adds labelled tasks to a graph.
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "simulator/lowering/activity.hpp"
#include "simulator/lowering/lowered_network.hpp"

namespace dtfm::sim {

/// A graph and what its tasks and links are for.
struct LabelledGraph {
  TaskGraph graph;                // without names; host i is device i
  std::vector<TaskLabel> labels;  // of each task
  std::vector<LinkRole> links;    // of each link
};

/// The messages of one kind from one device to another, which are sent one after the other.
struct Channel {
  int from = 0, to = 0, route = no_index, queue = no_index;
};

class GraphBuilder {
 public:
  /// The arguments must outlive this.
  GraphBuilder(const Topology& topology, const Calibration& constants)
      : topology_(topology), constants_(constants), network_(topology, constants, result_.graph) {}
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  const Topology& topology() const { return topology_; }
  const Calibration& constants() const { return constants_; }
  void reserve(std::size_t tasks);
  /// A channel to the device itself takes no time.
  Channel channel(int from, int to, Activity kind);

  // All return the number of the new task, which waits for those of `after`; no_index stands for none.

  int compute(int device, double seconds, std::span<const int> after, TaskLabel label);
  int send(const Channel& channel, double bytes, std::span<const int> after, TaskLabel label);
  /// So many messages, `bytes` in all, each sent when the one before it has arrived: one transfer, which pays
  /// latency and overhead for every one. Traces change the latency of the last alone.
  int send_sequentially(const Channel& channel, double bytes, double messages, std::span<const int> after,
                        TaskLabel label);
  int wait(double seconds, std::span<const int> after, TaskLabel label);
  /// One for several; the only one of `tasks`, which is not empty, stays itself.
  int join(std::span<const int> tasks, TaskLabel label);

  LabelledGraph take();

 private:
  int add(const Task& task, std::span<const int> after, const TaskLabel& label);
  /// Measured between hosts; inside one there is no socket to be served.
  double overhead_s(const Channel& channel) const;

  const Topology& topology_;
  const Calibration& constants_;
  LabelledGraph result_;
  LoweredNetwork network_;
  std::map<std::pair<Activity, std::pair<int, int>>, int> queues_;
};

}  // namespace dtfm::sim
