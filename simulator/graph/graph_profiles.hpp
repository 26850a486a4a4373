// Times of the steps of a profile, numbered consecutively over all its repetitions.
#pragma once

#include <cstddef>

#include "simulator/graph/task_graph.hpp"

namespace dtfm::sim {

/// The time of step `number` (from 0) in seconds; infinite after the last step.
double date_of(const Profile& profile, std::size_t number);

/// The number of steps up to and including time `date`. Throws Error if a double cannot count that many.
std::size_t steps_until(const Profile& profile, double date);

}  // namespace dtfm::sim
