// A graph of computations and transfers, and the hosts and links that it runs on: what graph_reader reads and
// graph_replay runs. Plain data; things are named by their positions.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "planner/core/index.hpp"
#include "simulator/network/max_min.hpp"

namespace dtfm::sim {

/// How flows share links and what a link's numbers mean (Velho, Schnorr, Casanova and Legrand, On the
/// validity of flow-level TCP network models, 2013, for CM02 and LV08).
struct NetworkModel {
  bool weigh_by_latency = false;  // weight 1 ÷ (latency + Σ weight_s ÷ capacity of each link); else all alike
  double latency_factor = 1, bandwidth_factor = 1;
  double weight_s = 0;
  double window = 0;           // bytes; a flow's ceiling is window ÷ (2 × latency); 0: none
  bool cross_traffic = false;  // acknowledgements: a flow takes 5 % of its rate on the way back
};

enum class HostSharing { fifo, processor_sharing };

struct Host {
  std::string name;
  double speed = 1;  // work units per second
  HostSharing sharing = HostSharing::fifo;
};

struct GraphLink {
  std::string name;
  double bandwidth = 0;  // bytes per second
  double latency = 0;    // seconds
  Sharing sharing = Sharing::shared;
};

/// Links in order, and those of the way back, where that matters.
struct Route {
  std::vector<int> links, reverse;
  double return_latency = 0;  // seconds of the way back, that weigh_by_latency adds to those of the links
};

/// From each date on, all targets have scale × value; before the first, what they have otherwise. With a
/// period all dates come again, for ever. What moves or computes goes on at the new rate; at 0 it waits.
struct Profile {
  enum class Quantity { bandwidth, latency, speed };
  struct Target {
    int index = 0;     // a link; of speed: a host
    double scale = 1;  // of its value
  };
  struct Step {
    double date, value;
  };
  Quantity quantity = Quantity::bandwidth;
  std::vector<Target> targets;
  std::vector<Step> steps;  // dates strictly increase, by less than a period in all
  double period = 0;        // 0: once
};

struct Failure {
  int host = no_index, link = no_index;  // one of them
  double down = 0, up = std::numeric_limits<double>::infinity();
};

enum class TaskKind : std::uint8_t { compute, delay, flow };

struct Task {
  TaskKind kind = TaskKind::delay;
  /// Of a flow: one of many messages on an open connection. Its bytes move at once and its latency comes
  /// after them, when its queue is already free for the next.
  bool streamed = false;
  int host = no_index;         // of a computation; the source of a flow
  int destination = no_index;  // of a flow
  int route = no_index;        // of a flow to another host
  int queue = no_index;
  double amount = 0;                                      // work units, seconds or bytes
  double rate = std::numeric_limits<double>::infinity();  // a flow's own ceiling, bytes per second
  double overhead = 0;  // seconds of a flow to another host before anything of it moves
  double priority = 0;
  int first_after = 0, after_count = 0;  // what it waits for: a part of TaskGraph::after
};

struct TaskGraph {
  NetworkModel model;
  std::vector<Host> hosts;
  std::vector<GraphLink> links;
  std::vector<Route> routes;
  std::vector<Profile> profiles;
  std::vector<Failure> failures;
  int queues = 0;
  std::vector<Task> tasks;  // after all that they wait for
  std::vector<std::string> task_names;
  std::vector<int> after;
};

}  // namespace dtfm::sim
