// Translates the changes of a scenario into profiles of the links and hosts of one graph, one window of time
// after the other, because traces may be long, repeat forever and overlap.
#pragma once

#include <cstddef>
#include <vector>

#include "core/cluster/topology.hpp"
#include "simulator/iteration/iteration_graph.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

/// A trace applies to the following links of a graph.
///   bandwidth, absolute   links of the pairs of devices that it covers, and links that a sender shares among
///                         receivers if it covers all of these; not the capacity of a pair of sites
///   bandwidth, relative   the same, and the capacity of a pair of sites if it covers all their devices
///   latency               links of the pairs of devices that it covers
/// Relative traces of one link are multiplied; among absolute ones the last in the scenario applies.
class ScenarioProfiles {
 public:
  /// Maximum number of changes of a group of links in one window.
  static constexpr std::size_t max_changes = 20'000'000;

  /// The scenario must outlive this.
  ScenarioProfiles(const Scenario& scenario, const Topology& topology, const LabelledGraph& graph);

  /// The values at `start` and the changes up to `end`. Windows may overlap or be repeated. Throws Error for
  /// more than `max_changes` changes, and for traces whose product is out of range.
  std::vector<Profile> between(double start, double end) const;
  /// Whether anything changes after `date`.
  bool changes_after(double date) const;
  /// Whether a trace has a step after `date`, as a periodic one always has.
  bool traces_change_after(double date) const;

 private:
  /// Links to which the same traces apply.
  struct LinkGroup {
    Profile::Quantity quantity;
    const Trace* absolute = nullptr;
    std::vector<const Trace*> relative;
    std::vector<Profile::Target> targets;  // scale: the link's own bandwidth or latency
  };
  struct HostSpeed {
    int host = 0;
    double base = 1;  // speed in the graph
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
