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
  std::vector<ScalarReduction> before_update;  // one after another: the norm, in fp16 and bf16 an overflow
  /// The loss, among the last stages. Each then sends it to its first stage, which begins the next iteration;
  /// to other stages it comes in time.
  std::vector<ScalarReduction> after_update;
  bool sends_loss = false;
};

/// None if the trainer reduces no scalars. The stages of `plan` may be virtual.
ScalarReductions scalar_reductions(const Job& job, const Plan& plan);

}  // namespace dtfm
