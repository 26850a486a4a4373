// The steps of a profile, counted over all rounds.
#pragma once

#include <cstddef>

#include "simulator/graph/task_graph.hpp"

namespace dtfm::sim {

/// The date of step `number`, from 0; infinite after the last.
double date_of(const Profile& profile, std::size_t number);

/// How many steps there are up to `date`, that date included. Throws Error where they are too many to be told
/// apart.
std::size_t steps_until(const Profile& profile, double date);

}  // namespace dtfm::sim
