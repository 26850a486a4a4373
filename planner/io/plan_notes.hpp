// Notes on results, as sentences for the user.
#pragma once

#include <string>
#include <vector>

#include "core/plan/job.hpp"
#include "core/plan/plan.hpp"
#include "planner/api/finalist_simulation.hpp"

namespace dtfm::io {

/// Notes if the micro-batches of a plan are not those of the job, or are not split evenly.
std::vector<std::string> batch_notes(const Plan& plan, const Job& job);

/// Returns a note on the values that `used` has for settings of the job which neither a plan nor a search
/// decides. The tensor degree is never among them, because every plan gives it.
std::vector<std::string> undecided_notes(const Job& job, const ExecutionConfig& used,
                                         const SettingSet& undecided);

/// "checkpoint period 12.3 min, chosen by simulation"
std::string format_checkpoint_period(const api::CheckpointPeriod& period);

}  // namespace dtfm::io
