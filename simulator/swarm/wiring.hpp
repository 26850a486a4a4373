// Stochastic wiring: which peer of a stage a trainer asks next (interleaved weighted round robin; Ryabinin et
// al., arXiv 2301.11913, section 3.2, and the balancer of the released code).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "planner/core/rng.hpp"

namespace dtfm::sim {

/// A peer that has announced itself for the stage, and when it did so last.
struct Announcement {
  int peer = 0;
  double date = 0;
};

/// One trainer's view of one stage: a heap of (virtual time, random number, peer).
///
/// The peer at the top is asked; its virtual time grows at once, before the answer, by the size of the task ÷
/// its rate, so that in the long run peers get work in proportion to their rates. The rate is measured: an
/// exponential moving average of the seconds per unit of task, with bias correction; 1 unit per second before
/// the first measurement. A peer that is banned is asked no more until it announces itself anew.
class Wiring {
 public:
  static constexpr double smoothing = 0.1;  // weight of the last measurement in the average
  static constexpr int no_peer = -1;

  /// Of peers 0 … `peers` − 1, none of which is known yet.
  explicit Wiring(int peers) : members_(static_cast<std::size_t>(peers)) {}

  /// The valid announcements, each peer's once, in any order. Who is not among them is forgotten; who is new,
  /// or banned before the date of its announcement, enters at the virtual time of the heap's top (0 if it is
  /// empty); all else stays. `rng` is asked once for everyone who enters.
  void refresh(std::span<const Announcement> announcements, Rng& rng);

  /// The peer to ask, whose virtual time is now larger; nothing if there is none. `size` is that of the task.
  /// It is not `but`, whose virtual time stays.
  std::optional<int> pick(double size, Rng& rng, int excluded = no_peer);

  /// `peer` has answered to a task of `size` after `seconds`.
  void measure(int peer, double size, double seconds);

  /// Whether it was not yet banned, or is not known.
  bool ban(int peer, double date);

  bool empty() const { return heap_.empty(); }
  bool has_bans() const { return ban_count_ > 0; }
  bool is_known(int peer) const { return member_of(peer).state != State::unknown; }
  /// Units of task per second, as measured.
  double rate(int peer) const;

 private:
  enum class State : std::uint8_t { unknown, serving, banned };
  struct Member {
    double average = 0;     // seconds per unit, biased towards 0
    double remaining_bias = 1;  // (1 − smoothing) to the number of measurements
    double banned_at = 0;
    State state = State::unknown;
    bool announced = false;  // while refreshing
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
  std::vector<int> known_peers_;  // ascending in the order of their entrance
  std::vector<Entry> heap_;
  int ban_count_ = 0;
};

}  // namespace dtfm::sim
