#include "simulator/run/interval_replay.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/infinity.hpp"

namespace dtfm::sim {
namespace {

std::size_t change_count(const std::vector<Profile>& profiles) {
  std::size_t count = 0;
  for (const Profile& profile : profiles) count += profile.steps.size();
  return count;
}

}  // namespace

/// Times in a scenario are at most 1e9 s, and a detection time may be added. Timelines store ns in 63 bits.
void check_date(double date) {
  constexpr double latest = 2e9;
  if (date > latest)
    throw Error("",
                fmt::format("the run would reach {:.3g} s of simulated time; the maximum is {:g} s: check "
                            "speeds and bandwidths",
                            date, latest));
}

ReplayedInterval IntervalReplay::replay_interval(LabelledGraph& graph, const ScenarioProfiles& changes,
                                                 double now, double until, bool keep_unfinished) {
  for (;; window_ *= 2) {
    const double window_end = now + window_;
    graph.graph.profiles = changes.between(now, window_end);
    const double known_until = changes.changes_after(window_end) ? window_end : infinity;
    ReplayedInterval replayed{
        replay(graph.graph, {now, std::min(until, known_until), stop_, keep_unfinished}), ReplayEnd::finished,
        now, 0};
    replayed.ended = replayed.replay.ended;
    if (replayed.ended == ReplayEnd::stopped) return replayed;
    const bool is_futile = replayed.ended == ReplayEnd::deadlocked &&
                           change_count(graph.graph.profiles) > std::size_t{max_futile_changes};
    if (replayed.ended != ReplayEnd::finished && known_until < until && !is_futile) continue;
    if (replayed.ended == ReplayEnd::deadlocked && until < infinity) replayed.ended = ReplayEnd::aborted;
    replayed.end = replayed.ended == ReplayEnd::aborted ? until : replayed.replay.makespan;
    check_date(replayed.end);
    window_ = std::max(window_ / 2, 2 * (replayed.end - now));
    return replayed;
  }
}

}  // namespace dtfm::sim
