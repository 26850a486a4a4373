// The distributed hash table of a swarm, in which peers announce the stage that they serve.
#pragma once

#include <vector>

#include "simulator/swarm/wiring.hpp"

namespace dtfm::sim {

/// A peer announces itself when it starts to serve and every 5 s from then on; a record is valid for 300 s.
/// This needs no events: the time of the last announcement follows from when the peer started and stopped
/// serving.
class Announcements {
 public:
  static constexpr double period_s = 5, lifetime_s = 300;

  explicit Announcements(int stages) : stages_(static_cast<std::size_t>(stages)) {}

  void begin(int stage, int peer, double now);
  void end(int stage, int peer, double now);

  /// The records that are valid at time `now`, in the order in which their peers started to serve. `now` must
  /// not decrease between calls.
  std::vector<Announcement> valid(int stage, double now);
  /// A counter that grows whenever a record of the stage is added, ended or expires.
  int version(int stage) const { return stages_[static_cast<std::size_t>(stage)].version; }
  /// Whether some records belong to peers that no longer serve, so that the valid records change over time.
  bool has_ended(int stage) const { return stages_[static_cast<std::size_t>(stage)].ended > 0; }

 private:
  struct Record {
    int peer;
    double begin, end;
  };
  struct Stage {
    std::vector<Record> records;
    int version = 0, ended = 0;
  };
  static double last_date(const Record& record, double now);

  std::vector<Stage> stages_;
};

}  // namespace dtfm::sim
