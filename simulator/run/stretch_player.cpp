#include "simulator/run/stretch_player.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "planner/core/error.hpp"

namespace dtfm::sim {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A scenario's dates end at 1e9 s, and a time of detection may come on top; timelines are in ns of 63 bits.
void check_date(double date) {
  constexpr double latest = 2e9;
  if (date > latest)
    throw Error("", fmt::format("the run would reach {:.3g} s of simulated time, and {:g} s is the most: are "
                                "the speeds and bandwidths right?",
                                date, latest));
}

std::size_t change_count(const std::vector<Profile>& profiles) {
  std::size_t count = 0;
  for (const Profile& profile : profiles) count += profile.steps.size();
  return count;
}

}  // namespace

Played StretchPlayer::play(LabelledGraph& graph, const ScenarioProfiles& changes, double now, double until,
                           bool keeps_rest) {
  for (;; window_ *= 2) {
    const double window_end = now + window_;
    graph.graph.profiles = changes.between(now, window_end);
    const double known_until = changes.change_after(window_end) ? window_end : infinity;
    Played played{replay(graph.graph, {now, std::min(until, known_until), stop_, keeps_rest}),
                  ReplayEnd::finished, 0};
    played.ended = played.replay.ended;
    if (played.ended == ReplayEnd::stopped) return played;
    const bool is_futile =
        played.ended == ReplayEnd::stuck && change_count(graph.graph.profiles) > std::size_t{futile_changes};
    if (played.ended != ReplayEnd::finished && known_until < until && !is_futile) continue;
    if (played.ended == ReplayEnd::stuck && until < infinity) played.ended = ReplayEnd::cut;
    played.end = played.ended == ReplayEnd::cut ? until : played.replay.makespan;
    check_date(played.end);
    window_ = std::max(window_ / 2, 2 * (played.end - now));
    return played;
  }
}

}  // namespace dtfm::sim
