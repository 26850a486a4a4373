// Sentences about plans, formed from the facts of an answer.
#pragma once

#include <string>
#include <vector>

#include "planner/api/plan_answer.hpp"
#include "planner/api/schemes/scheme.hpp"

namespace dtfm::io {

/// What the user should know about a plan besides its numbers; `warnings` of plan files.
std::vector<std::string> notes_of(const api::PlanAnswer& answer);
/// The same about the front of an answer.
std::vector<std::string> front_notes(const api::ParetoFront& front, bool has_points);

/// Notes if the micro-batches of a plan are not those of the job, or are not split evenly.
std::vector<std::string> batch_notes(const Plan& plan, const Job& job);

/// The values that `used` has for these settings: "micro_batch 1, schedule gpipe". Empty if there are none.
std::string format_undecided(const ExecutionConfig& used, const SettingSet& undecided);
/// A note on the values that `used` has for settings of the job which neither a plan nor a search decides.
/// The tensor degree is never among them, because every plan gives it.
std::vector<std::string> undecided_notes(const Job& job, const ExecutionConfig& used,
                                         const SettingSet& undecided);

/// Why a scheme has no layout, and with which changes of the job it would have one: "does not fit: lab/0
/// needs 26.4 GB of 24.0; fits with recompute: full".
std::string format_no_layout(const api::ChosenLayout& chosen, const Problem& problem);

/// "schedule 1f1b-blocking instead of gpipe, gradient_sync ring instead of sharded-ps"
std::string format_changes(const std::vector<TargetChange>& changes);

/// "search converged after 1,000 evaluations", of a plan that was searched for.
std::string format_search_end(const api::PlanAnswer& answer);

/// "checkpoint period 12.3 min, chosen by simulation"
std::string format_checkpoint_period(const api::CheckpointPeriod& period);

/// Why the running plan of a warm start cannot continue; empty if it can.
std::string format_obstacle(const api::WarmStartResult& result);

}  // namespace dtfm::io
