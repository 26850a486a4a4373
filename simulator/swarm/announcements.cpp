#include "simulator/swarm/announcements.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/infinity.hpp"

namespace dtfm::sim {
namespace {}  // namespace

void Announcements::begin(int stage, int peer, double now) {
  Stage& it = stages_[static_cast<std::size_t>(stage)];
  std::erase_if(it.records, [&](const Record& record) {
    if (record.peer != peer) return false;
    if (record.end < infinity) --it.ended;
    return true;
  });
  it.records.push_back({peer, now, infinity});
  ++it.version;
}

void Announcements::end(int stage, int peer, double now) {
  Stage& it = stages_[static_cast<std::size_t>(stage)];
  for (Record& record : it.records)
    if (record.peer == peer && record.end == infinity) {
      record.end = now;
      ++it.ended;
    }
  ++it.version;
}

double Announcements::last_date(const Record& record, double now) {
  const double date = std::min(now, record.end);
  return record.begin + period_s * std::floor((date - record.begin) / period_s);
}

std::vector<Announcement> Announcements::valid(int stage, double now) {
  Stage& it = stages_[static_cast<std::size_t>(stage)];
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

}  // namespace dtfm::sim
