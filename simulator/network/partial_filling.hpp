// Progressive filling of a part of a fluid network.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/stop.hpp"
#include "simulator/network/fluid_state.hpp"

namespace dtfm::sim {

/// Recomputes the rates of those flows that the changes of one instant affect. Two facts limit the affected
/// part. First, if L is the lowest level that a change can affect, nothing below L changes, because
/// progressive filling passes through the same states up to L. Second, a link influences others only if it
/// is full. So a few flows are unfrozen and filled again while all others stay frozen. If this leaves the
/// frozen flows of a link inconsistent, they are unfrozen as well, and so on, until the definition of
/// fairness holds everywhere.
class PartialFilling {
 public:
  /// `state` must outlive this.
  explicit PartialFilling(FluidState& state) : state_(state) {}
  /// Throws WorkStopped.
  void update(double now, const StopFunction& stop);

 private:
  enum class FlowState : std::uint8_t { frozen, rising, stopped };
  /// Where an unfrozen flow has stopped.
  struct Stop {
    double level;
    int bottleneck;
  };
  /// Bytes per second of frozen flows, the state of the unfrozen (rising) ones, and what is left for these
  /// while the level rises.
  struct LinkFilling {
    double frozen, rising_load, left, left_load, next_level;
    int rising, left_rising, held_rising;
    bool touched, open;
  };
  struct Candidate {
    double level;
    int id;  // a link, or ~flow for the level cap of a flow
    /// The order of a heap whose top is the lowest level.
    bool operator<(const Candidate& other) const {
      return level != other.level ? level > other.level : id > other.id;
    }
  };

  bool is_frozen(int flow) const { return flow_states_[at(flow)] == FlowState::frozen; }
  void unfreeze_changed();
  void touch(int link);
  void unfreeze_flow(int flow);
  void open(int link);
  void fill(const StopFunction& stop);
  void push_candidates();
  double rise(double level);
  void stop_flow(int flow, double level, int bottleneck);
  void stop_all_on(int link, double level);
  bool is_inconsistent(int link) const;
  bool open_inconsistent_links(bool all);
  void commit(double now);
  void commit_link(int link, double now);
  void commit_flow(int flow, double now);

  FluidState& state_;
  std::vector<FlowState> flow_states_;  // [flow]
  std::vector<Stop> stops_;             // [flow]
  std::vector<LinkFilling> links_;      // [link]
  std::vector<int> unfrozen_, touched_;
  std::vector<Candidate> heap_;
  std::size_t stopped_ = 0;
};

}  // namespace dtfm::sim
