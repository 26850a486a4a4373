// Chooses the time between two checkpoints under scenarios that leave it open (`period: auto`).
#pragma once

#include <optional>
#include <vector>

#include "planner/api/finalist_simulation.hpp"

namespace dtfm::api {

/// The period with which a plan is simulated first: the shortest of Young and Daly's
/// (sim::young_daly_period_s) under the scenarios that leave it open. Infinite if no device of the plan
/// leaves under them, and empty if there are none. Throws Error for a plan that cannot be run.
std::optional<double> first_checkpoint_period_s(const search::PlanCandidate& candidate,
                                                const std::vector<NamedScenario>& scenarios);

/// The scenario with this period if it leaves it open; otherwise unchanged.
NamedScenario with_checkpoint_period(NamedScenario named, double period_s);

/// Simulates the plan with a grid of periods around that of `result`, and changes `result` to the one with
/// the shortest time per iteration by the criterion. Equal times keep the first period. Does nothing if no
/// period is open, if it is infinite or has been chosen already, or if the work is stopped before the first
/// periods are simulated. The choice does not depend on the number of workers.
void choose_checkpoint_period(const search::PlanCandidate& candidate,
                              const std::vector<NamedScenario>& scenarios, RobustCriterion robust,
                              const Work& work, FinalistResult& result);

}  // namespace dtfm::api
