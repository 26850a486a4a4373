// The distributed hash table of a swarm, in which peers announce the stage that they serve.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/index.hpp"
#include "core/base/infinity.hpp"
#include "simulator/swarm/wiring.hpp"

namespace dtfm::sim {

/// A peer announces itself when it starts to serve and every 5 s from then on; a record is valid for 300 s.
/// This needs no events: the time of the last announcement follows from when the peer started and stopped
/// serving.
class Announcements {
 public:
  static constexpr double period_s = 5, lifetime_s = 300;

  explicit Announcements(int stages) : stages_(at(stages)) {}

  void begin(int stage, int peer, double now) {
    Stage& it = stages_[at(stage)];
    std::erase_if(it.records, [&](const Record& record) {
      if (record.peer != peer) return false;
      if (record.end < infinity) --it.ended;
      return true;
    });
    it.records.push_back({peer, now, infinity});
    ++it.version;
  }
  void end(int stage, int peer, double now) {
    Stage& it = stages_[at(stage)];
    for (Record& record : it.records)
      if (record.peer == peer && record.end == infinity) {
        record.end = now;
        ++it.ended;
      }
    ++it.version;
  }

  /// The records that are valid at time `now`, in the order in which their peers started to serve. `now` must
  /// not decrease between calls.
  std::vector<Announcement> valid(int stage, double now) {
    Stage& it = stages_[at(stage)];
    std::vector<Announcement> result;
    std::erase_if(it.records, [&](const Record& record) {
      const double date = last_date(record, now);
      if (now >= date + lifetime_s) {
        --it.ended;
        ++it.version;
        return true;
      }
      result.push_back({record.peer, date});
      return false;
    });
    return result;
  }
  /// A counter that grows whenever a record of the stage is added, ended or expires.
  int version(int stage) const { return stages_[at(stage)].version; }
  /// Whether some records belong to peers that no longer serve, so that the valid records change over time.
  bool has_ended(int stage) const { return stages_[at(stage)].ended > 0; }

 private:
  struct Record {
    int peer;
    double begin, end;
  };
  struct Stage {
    std::vector<Record> records;
    int version = 0, ended = 0;
  };
  static double last_date(const Record& record, double now) {
    const double date = std::min(now, record.end);
    return record.begin + period_s * std::floor((date - record.begin) / period_s);
  }

  std::vector<Stage> stages_;
};

}  // namespace dtfm::sim
