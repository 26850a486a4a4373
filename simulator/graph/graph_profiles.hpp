// The profiles of a task graph during a replay.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "simulator/graph/graph_network.hpp"
#include "simulator/graph/replay_event.hpp"

namespace dtfm::sim {

/// Profiles sleep while no flow uses any of their targets, so that they cause no events. The steps of a
/// profile are numbered consecutively over all its repetitions.
class GraphProfiles {
 public:
  /// The arguments must outlive this.
  GraphProfiles(const TaskGraph& graph, GraphNetwork& network, ReplayQueue& queue);

  /// Advances sleeping profiles of the capacities that a task is going to use to their values at time `now`.
  /// Throws Error if one has more steps until then than a double can count.
  void wake(std::span<const LinkUse> uses, double now);
  /// The next step of a profile, by its event.
  void change(int profile);
  /// Called whenever anything else than a profile causes an event.
  void record_progress() { futile_changes_ = 0; }
  /// Whether only periodic profiles have caused events for long, and nothing else is queued.
  bool are_futile() const;

 private:
  struct State {
    bool asleep = true;
    std::size_t steps = 0;  // number of steps taken
  };

  void apply(const Profile& profile, std::size_t step);
  void push_change(int profile);

  const std::vector<Profile>& profiles_;
  GraphNetwork& network_;
  ReplayQueue& queue_;
  std::vector<State> states_;                  // [profile]
  std::vector<std::vector<int>> by_capacity_;  // [shared capacity]: profiles that change it
  std::size_t queued_ = 0;                     // number of their events in the queue
  int futile_changes_ = 0;
};

}  // namespace dtfm::sim
