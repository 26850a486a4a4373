// Who has announced itself for which stage: the distributed hash table of a swarm.
#pragma once

#include <vector>

#include "simulator/swarm/wiring.hpp"

namespace dtfm::sim {

/// A peer announces itself when it begins to serve and every 5 s from then on; a record lives 300 s. No event
/// is needed for that: the date of the last announcement follows from when it began and when it ended.
class Announcements {
 public:
  static constexpr double period_s = 5, lifetime_s = 300;

  explicit Announcements(int stages) : stages_(static_cast<std::size_t>(stages)) {}

  void begin(int stage, int peer, double now);
  void end(int stage, int peer, double now);

  /// Records that are valid at `now`, which never goes back, by the date at which their peers began.
  std::vector<Announcement> valid(int stage, double now);
  /// Grows when somebody begins or ends.
  int version(int stage) const { return stages_[static_cast<std::size_t>(stage)].version; }
  /// Whether records only wait to expire: then what is valid changes with time alone.
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
