// Degrees inside the stages of a plan that is read.
#pragma once

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"

namespace dtfm::io {

/// Sets the tensor degree of a plan with at least one stage and, if the plan has none, the `stage_data` that
/// its expert degree requires with the tensor degree of the job, unless the job leaves that open. Throws
/// Error without a place if the degrees do not fit together, the model or the stages.
void set_degrees(const Job& job, Plan& plan);

}  // namespace dtfm::io
