// A transformer with a multiple of its hidden size.
#pragma once

#include "core/plan/problem.hpp"

namespace dtfm::cost {

/// Returns the problem with `multiple` times the hidden size, the heads (each as wide as before) and the MLP
/// width. Times of profiles are scaled by the ratio of the estimates for the wide and the narrow layer (with
/// the job's `efficiency`, else by the roofline). If the GPU's peak or memory bandwidth is not known, forward
/// and backward are scaled by the ratio of FLOPs, and the update by the ratio of parameters. Throws Error if
/// the model is not a transformer.
Problem widen_model(const Problem& problem, int multiple);

}  // namespace dtfm::cost
