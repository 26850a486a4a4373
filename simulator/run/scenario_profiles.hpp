// What a scenario does to the links and hosts of one graph, a window of time after the other: traces may be
// long, come again for ever and lie on top of each other.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/core/topology.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

/// A trace stands for the links of a graph as follows.
///   bandwidth, absolute   the links of one pair of devices that it is about; those that a sender shares
///                         among receivers that it is all about. The capacity of a pair of sites stays.
///   bandwidth, relative   the same, and the capacity of pairs of sites if it is about all their devices
///   latency               the links of one pair of devices
/// Relative traces of one link are multiplied; of absolute ones the last in the scenario counts.
class ScenarioProfiles {
 public:
  /// Changes of links and hosts in one window; more are an Error.
  static constexpr std::size_t max_changes = 20'000'000;

  /// The scenario must outlive this.
  ScenarioProfiles(const Scenario& scenario, const Topology& topology, const LabelledGraph& graph);

  /// What holds at `start`, and the changes up to `end`; both may be said again for the next window.
  std::vector<Profile> between(double start, double end) const;
  /// Whether anything changes after `date`.
  bool changes_after(double date) const;

 private:
  /// Links with the same traces on them.
  struct LinkGroup {
    Profile::Quantity quantity;
    const Trace* absolute = nullptr;
    std::vector<const Trace*> relative;
    std::vector<Profile::Target> targets;  // scale: what the link has by itself
  };
  struct HostSpeed {
    int host = 0;
    double base = 1;  // by the graph
    std::vector<Profile::Step> steps;
  };

  void add_links(const Topology& topology, const LabelledGraph& graph);
  void add_speeds(const LabelledGraph& graph);
  void add(const LinkGroup& group, double start, double end, std::vector<Profile>& profiles) const;

  const Scenario& scenario_;
  std::vector<LinkGroup> groups_;
  std::vector<HostSpeed> speeds_;
};

}  // namespace dtfm::sim
