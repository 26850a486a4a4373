// The scalars that devices all-reduce in every iteration (MessagingTraits::reduces_scalars): the loss, and
// the norm of the gradients. Their size is negligible, but each message takes a latency, and devices wait for
// it.
#pragma once

#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"

namespace dtfm {

/// The devices through which a scalar goes, one message after another.
using ScalarRoute = std::vector<int>;

/// All-reduces at the same time. A scalar goes around n members in 2 (n − 1) messages: once until the last
/// member has the sum, and on to the last but one, as over Gloo and NCCL's ring (NCCL_ALGO).
struct ScalarReduction {
  std::vector<ScalarRoute> routes;
  int count = 1;  // how often, one after another
};

struct ScalarReductions {
  std::vector<ScalarReduction>
      norms;  // before the update, one after another; in fp16 and bf16 an overflow, too
  /// After the update, among the last stages; empty if the trainer reduces no scalars. Each then sends it to
  /// its first stage, which begins the next iteration; other stages have it before they need it.
  ScalarRoute loss;
};

/// The stages of `plan` may be virtual.
ScalarReductions scalar_reductions(const Job& job, const Plan& plan);

}  // namespace dtfm
