// The same transformer, wider.
#pragma once

#include "planner/core/problem.hpp"

namespace dtfm::cost {

/// `multiple` times the hidden size, with as many times the heads (each as wide as before) and the width of
/// the MLP. A profile of the narrower layers becomes one of the wider ones: each time by the ratio of the
/// estimates for both (the job's `efficiency`, else the roofline), or, where the GPU's peak or bandwidth is
/// not known, of their FLOPs and, of the update, parameters. Throws Error where the model is not a
/// transformer.
Problem widen_model(const Problem& problem, int multiple);

}  // namespace dtfm::cost
