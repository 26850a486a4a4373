// A graph of computations and transfers, and the hosts and links that it runs on. graph_reader reads it and
// graph_replay executes it. Plain data that refers to everything by index.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/base/index.hpp"
#include "simulator/network/link_use.hpp"

namespace dtfm::sim {

/// How flows share links, and how bandwidths and latencies of links are corrected (Velho, Schnorr, Casanova
/// and Legrand, On the validity of flow-level TCP network models, 2013, for the models CM02 and LV08).
struct NetworkModel {
  /// Flows have the weight 1 ÷ (latency + Σ weight_s ÷ bandwidth over their links); otherwise the weight 1.
  bool weigh_by_latency = false;
  double latency_factor = 1, bandwidth_factor = 1;
  double weight_s = 0;
  double window = 0;           // bytes; limits a flow to window ÷ (2 × latency); 0: no limit
  bool cross_traffic = false;  // acknowledgements use 5 % of a flow's rate on the reverse path
};

enum class HostSharing { fifo, processor_sharing };

struct Host {
  std::string name;
  double speed = 1;  // work units per second
  HostSharing sharing = HostSharing::fifo;
};

struct GraphLink {
  double bandwidth = 0;  // bytes per second
  double latency = 0;    // seconds
  Sharing sharing = Sharing::shared;
};

struct Route {
  std::vector<int> links, reverse;  // in order; `reverse` is used only for `cross_traffic`
  double return_latency = 0;        // s of the reverse path, which weigh_by_latency adds to those of `links`
  /// [link of `links`]: the number of identical concurrent flows that each flow of the route represents
  /// there. If empty, a flow represents only itself.
  std::vector<double> flow_counts = {};
};

/// From the time of each step on, all targets have scale × value; before the first step they keep their own
/// value. With a period the steps repeat forever. Running tasks continue at the new rate and pause at rate 0.
struct Profile {
  enum class Quantity { bandwidth, latency, speed };
  struct Target {
    int index = 0;     // a link, or a host if the quantity is speed
    double scale = 1;  // factor on the value of a step
  };
  struct Step {
    double date, value;
  };
  Quantity quantity = Quantity::bandwidth;
  std::vector<Target> targets;
  std::vector<Step> steps;  // with strictly increasing times that span less than a period
  double period = 0;        // s; 0: the steps do not repeat
};

struct Failure {
  int host = no_index, link = no_index;  // exactly one of them is set
  double down = 0, up = std::numeric_limits<double>::infinity();
};

enum class TaskKind : std::uint8_t { compute, delay, flow };

struct Task {
  TaskKind kind = TaskKind::delay;
  /// Marks a flow as one of many messages on an open connection: its bytes move immediately, and its latency
  /// follows them, when its queue is already free for the next flow.
  bool streamed = false;
  int host = no_index;         // of a computation, or the source of a flow
  int destination = no_index;  // of a flow
  int route = no_index;        // of a flow between different hosts
  int queue = no_index;
  int connection = no_index;                              // of a streamed flow: of TaskGraph::connections
  double amount = 0;                                      // work units, seconds or bytes
  double rate = std::numeric_limits<double>::infinity();  // rate cap of a flow, bytes per second
  double overhead = 0;   // s before the first byte of a flow between different hosts
  double latencies = 1;  // how often a flow takes the latency of its route
  double priority = 0;
  int first_after = 0, after_count = 0;  // its dependencies: a range of TaskGraph::after
};

/// Flows wait for its slow start (tcp.hpp).
struct Connection {
  double initial_window = 0, round_trip = 0;  // bytes, s
};

struct TaskGraph {
  NetworkModel model;
  std::vector<Host> hosts;
  std::vector<GraphLink> links;
  std::vector<Route> routes;
  std::vector<Profile> profiles;
  std::vector<Failure> failures;
  int queues = 0;
  std::vector<Connection> connections;
  std::vector<Task> tasks;  // in topological order: dependencies come before the tasks that wait for them
  std::vector<std::string> task_names, link_names;  // empty if the graph was not read from a file
  std::vector<int> after;
};

}  // namespace dtfm::sim
