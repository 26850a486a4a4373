// The time between two checkpoints if a scenario leaves it open.
#pragma once

#include "core/plan/plan.hpp"
#include "core/plan/problem.hpp"
#include "simulator/scenario/scenario.hpp"

namespace dtfm::sim {

/// The period that minimizes the expected loss to first order, sqrt(2 × time to write a checkpoint × mean
/// time between failures) (Young, CACM 17(9), 1974; Daly, FGCS 22(3), 2006, equation 1). Failures are the
/// times after the start at which devices of the plan leave. The formula assumes that every failure loses the
/// work since the last checkpoint, so the best period is longer if other pipelines have the weights. Infinite
/// if no device of the plan leaves. The scenario must have a checkpoint. Throws Error for a plan that cannot
/// be run.
double young_daly_period_s(const Problem& problem, const Plan& plan, const Scenario& scenario);

/// The scenario with this period instead of an automatic one. With an infinite period no checkpoint is
/// written.
Scenario with_checkpoint_period(Scenario scenario, double period_s);

}  // namespace dtfm::sim
