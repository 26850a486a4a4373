#include "simulator/graph/profile_steps.hpp"

#include <limits>

#include <fmt/format.h>

#include "core/base/error.hpp"
#include "simulator/engine/clock.hpp"

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

}  // namespace

double date_of(const Profile& profile, std::size_t number) {
  const std::size_t round = number / profile.steps.size();
  if (round > 0 && profile.period == 0) return std::numeric_limits<double>::infinity();
  return round_to_tick(profile.steps[number % profile.steps.size()].date +
                       static_cast<double>(round) * profile.period);
}

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

}  // namespace dtfm::sim
