// How much longer than its time limit work on a plan may take.
#pragma once

namespace dtfm::api {

/// Seconds past the time limit that the first finalist's simulation, and then the lower bound or a prediction
/// interval, may take, so that results have them even with short limits.
inline constexpr double first_simulation_grace_s = 0.1, bound_grace_s = 0.1, explanation_grace_s = 0.2;

}  // namespace dtfm::api
