#include "simulator/graph/graph_profiles.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "core/base/infinity.hpp"
#include "simulator/engine/clock.hpp"
#include "simulator/graph/graph_replay.hpp"

namespace dtfm::sim {
namespace {

/// Above this number a double can no longer distinguish consecutive repetitions.
constexpr double max_steps = 0x1p52;

void check_step_count(const Profile& profile, double seconds) {
  if (seconds / profile.period * static_cast<double>(profile.steps.size()) < max_steps) return;
  throw Error("",
              fmt::format("a profile with a period of {:g} s has more than {:g} steps in {:g} s; expected a "
                          "longer period or shorter tasks",
                          profile.period, max_steps, seconds));
}

/// The time of step `number` in seconds; infinite after the last step.
double date_of(const Profile& profile, std::size_t number) {
  const std::size_t round = number / profile.steps.size();
  if (round > 0 && profile.period == 0) return infinity;
  return round_to_tick(profile.steps[number % profile.steps.size()].date +
                       static_cast<double>(round) * profile.period);
}

/// The number of steps up to and including time `date`.
std::size_t steps_until(const Profile& profile, double date) {
  const std::size_t size = profile.steps.size();
  // Bisection, which starts with the repetitions before and after the one that contains `date`.
  std::size_t below = 0, above = size;
  if (const double past = date - profile.steps.front().date; profile.period > 0 && past > 0) {
    check_step_count(profile, past);
    const auto round = static_cast<std::size_t>(past / profile.period);
    below = (round > 0 ? round - 1 : 0) * size;
    above = (round + 2) * size;
  }
  while (below < above) {
    const std::size_t middle = below + (above - below) / 2;
    if (date_of(profile, middle) <= date)
      below = middle + 1;
    else
      above = middle;
  }
  return below;
}

}  // namespace

GraphProfiles::GraphProfiles(const TaskGraph& graph, GraphNetwork& network, ReplayQueue& queue)
    : profiles_(graph.profiles), network_(network), queue_(queue), states_(graph.profiles.size()) {
  for (std::size_t i = 0; i < profiles_.size(); ++i)
    for (const Profile::Target& target : profiles_[i].targets) {
      const std::size_t capacity = at(network.capacity_of(profiles_[i].quantity, target.index));
      if (by_capacity_.size() <= capacity) by_capacity_.resize(capacity + 1);
      by_capacity_[capacity].push_back(static_cast<int>(i));
    }
}

void GraphProfiles::wake(std::span<const LinkUse> uses, double now) {
  for (const LinkUse& use : uses) {
    if (at(use.link) >= by_capacity_.size()) continue;
    for (const int number : by_capacity_[at(use.link)]) {
      const Profile& profile = profiles_[at(number)];
      State& state = states_[at(number)];
      if (!state.asleep) continue;
      state.asleep = false;
      if (profile.steps.empty()) continue;
      state.steps = steps_until(profile, now);
      if (state.steps > 0) apply(profile, state.steps - 1);
      push_change(number);
    }
  }
}

void GraphProfiles::change(int number) {
  --queued_;
  const Profile& profile = profiles_[at(number)];
  State& state = states_[at(number)];
  state.asleep =
      std::none_of(profile.targets.begin(), profile.targets.end(), [&](const Profile::Target& target) {
        return network_.fluid().is_used(network_.capacity_of(profile.quantity, target.index));
      });
  if (state.asleep) return;
  if (profile.period > 0) ++futile_changes_;
  apply(profile, state.steps++);
  push_change(number);
}

void GraphProfiles::apply(const Profile& profile, std::size_t step) {
  const double value = profile.steps[step % profile.steps.size()].value;
  for (const Profile::Target& target : profile.targets)
    network_.set(profile.quantity, target.index, target.scale * value);
}

void GraphProfiles::push_change(int number) {
  const double date = date_of(profiles_[at(number)], states_[at(number)].steps);
  if (date == infinity) return;
  queue_.push(date, changes, {Event::Kind::change, number});
  ++queued_;
}

bool GraphProfiles::are_futile() const {
  return futile_changes_ >= max_futile_changes && queue_.size() == queued_;
}

}  // namespace dtfm::sim
