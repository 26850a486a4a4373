// Stochastic wiring: chooses the peer of a stage that a trainer asks next (interleaved weighted round robin;
// Ryabinin et al., arXiv 2301.11913, section 3.2, and the balancer of the released code).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/rng.hpp"

namespace dtfm::sim {

struct Announcement {
  int peer = 0;
  double date = 0;  // time (s) of the peer's last announcement for the stage
};

/// One trainer's view of one stage: a heap of (virtual time, random number, peer).
///
/// The peer at the top is asked. Its virtual time grows immediately, before the reply, by task size ÷ rate,
/// so that in the long run peers get work in proportion to their rates. The rate is measured by an
/// exponential moving average of the seconds per unit of task size, with bias correction; it is 1 unit per
/// second before the first measurement. A banned peer is not asked again until it has announced itself anew.
class Wiring {
 public:
  static constexpr double smoothing = 0.1;  // weight of the last measurement in the average
  static constexpr int no_peer = -1;

  /// For peers 0 … `peers` − 1, none of which is known at first.
  explicit Wiring(int peers) : members_(static_cast<std::size_t>(peers)) {}

  /// Updates the view from the valid announcements, one per peer, in any order. Peers without one are
  /// forgotten. Peers that are new, or were banned before the time of their announcement, enter at the
  /// virtual time of the top of the heap (0 if it is empty). All others stay as they are. Draws one number
  /// from `rng` per peer that enters.
  void refresh(std::span<const Announcement> announcements, Rng& rng);

  /// Returns the peer to ask for a task of `size`, and advances its virtual time. Empty if there is none.
  /// Never returns `excluded`, whose virtual time does not change.
  std::optional<int> pick(double size, Rng& rng, int excluded = no_peer);

  /// Records that `peer` has replied to a task of `size` after `seconds`.
  void measure(int peer, double size, double seconds);

  /// Bans the peer at time `date` (s). Returns false if it is unknown or already banned.
  bool ban(int peer, double date);

  bool empty() const { return heap_.empty(); }
  bool has_bans() const { return ban_count_ > 0; }
  /// Measured rate in units of task size per second.
  double rate(int peer) const;

 private:
  enum class State : std::uint8_t { unknown, serving, banned };
  struct Member {
    double average = 0;         // seconds per unit of task size, biased towards 0
    double remaining_bias = 1;  // (1 − smoothing) to the power of the number of measurements
    double banned_at = 0;       // s
    State state = State::unknown;
    bool announced = false;  // used only during a refresh
  };
  struct Entry {
    double time;
    std::uint64_t tie;
    int peer;
  };
  static bool is_later(const Entry& a, const Entry& b) {
    if (a.time != b.time) return a.time > b.time;
    return a.tie != b.tie ? a.tie > b.tie : a.peer > b.peer;
  }

  const Member& member_of(int peer) const { return members_[static_cast<std::size_t>(peer)]; }
  Member& member_of(int peer) { return members_[static_cast<std::size_t>(peer)]; }
  void remove_from_heap(int peer);

  std::vector<Member> members_;
  std::vector<int> known_peers_;  // in the order in which they entered
  std::vector<Entry> heap_;
  int ban_count_ = 0;
};

}  // namespace dtfm::sim
