#include "simulator/swarm/wiring.hpp"

#include <algorithm>

namespace dtfm::sim {

void Wiring::refresh(std::span<const Announcement> announcements, Rng& rng) {
  for (const Announcement& it : announcements) member_of(it.peer).announced = true;
  std::erase_if(known_peers_, [&](int peer) {
    Member& member = member_of(peer);
    if (member.announced) return false;
    if (member.state == State::serving) remove_from_heap(peer);
    if (member.state == State::banned) --ban_count_;
    member = {};
    return true;
  });
  for (const Announcement& it : announcements) {
    Member& member = member_of(it.peer);
    member.announced = false;
    if (member.state == State::serving || (member.state == State::banned && it.date <= member.banned_at))
      continue;
    if (member.state == State::banned)
      --ban_count_;
    else
      known_peers_.push_back(it.peer);
    member.state = State::serving;
    heap_.push_back({heap_.empty() ? 0 : heap_.front().time, rng.next(), it.peer});
    std::push_heap(heap_.begin(), heap_.end(), is_later);
  }
}

/// Sifts the chosen entry down to its new place, which takes one pass through the heap instead of the two of
/// a pop and a push. If the top is excluded, the chosen entry is the first of its children.
std::optional<int> Wiring::pick(double size, Rng& rng, int excluded) {
  if (heap_.empty() || (heap_.size() == 1 && heap_.front().peer == excluded)) return std::nullopt;
  std::size_t hole = 0;
  if (heap_.front().peer == excluded) hole = heap_.size() > 2 && is_later(heap_[1], heap_[2]) ? 2 : 1;
  Entry entry = heap_[hole];
  entry.time += size / rate(entry.peer);
  entry.tie = rng.next();
  const std::size_t count = heap_.size();
  for (std::size_t child; (child = 2 * hole + 1) < count; hole = child) {
    if (child + 1 < count && is_later(heap_[child], heap_[child + 1])) ++child;
    if (!is_later(entry, heap_[child])) break;
    heap_[hole] = heap_[child];
  }
  heap_[hole] = entry;
  return entry.peer;
}

double Wiring::rate(int peer) const {
  const Member& member = member_of(peer);
  return member.average > 0 ? (1 - member.remaining_bias) / member.average : 1;
}

void Wiring::measure(int peer, double size, double seconds) {
  Member& member = member_of(peer);
  member.average += smoothing * (seconds / size - member.average);
  member.remaining_bias *= 1 - smoothing;
}

bool Wiring::ban(int peer, double date) {
  Member& member = member_of(peer);
  if (member.state == State::banned) member.banned_at = date;
  if (member.state != State::serving) return false;
  remove_from_heap(peer);
  member.state = State::banned;
  member.banned_at = date;
  ++ban_count_;
  return true;
}

void Wiring::remove_from_heap(int peer) {
  std::erase_if(heap_, [&](const Entry& entry) { return entry.peer == peer; });
  std::make_heap(heap_.begin(), heap_.end(), is_later);
}

}  // namespace dtfm::sim
