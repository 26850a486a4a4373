// Checks of which plans a target can run.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"

namespace dtfm {

struct TargetTraits;

/// A target cannot run a plan. The message is one line: the target, the reason, and the change of the plan or
/// the target that is nearest.
class NotRunnable : public Error {
 public:
  explicit NotRunnable(const std::string& message) : Error("", message) {}
};

/// Number of layers of each stage, such as `3/2/2`; of each virtual stage if there are several chunks. Throws
/// Error as virtual_stage_layers does.
std::string format_split(const Pipeline& pipeline, int chunks = 1);

/// Throws NotRunnable if the target cannot train the model of the job in its precision.
void check_model(const TargetTraits& target, const Job& job);
/// The same for the job's tensor degree, too, unless the planner decides it.
void check_trainable(const TargetTraits& target, const Job& job);

/// Throws NotRunnable if the target cannot run the pipelines of the plan. Settings that it would only replace
/// (run_on_target) do not matter.
void check_runnable(const TargetTraits& target, const Plan& plan, const Job& job);

}  // namespace dtfm
