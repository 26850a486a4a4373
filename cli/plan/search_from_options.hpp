// Converts the options of dtfm-plan to the requests of the library.
#pragma once

#include <chrono>
#include <vector>

#include "cli/common/interrupt.hpp"
#include "cli/common/progress.hpp"
#include "cli/plan/plan_options.hpp"
#include "planner/api/plan_request.hpp"
#include "core/plan/problem.hpp"

namespace dtfm::cli {

/// Returns the nominal scenario, then those of --scenario. Throws Error if two have the same name.
std::vector<api::NamedScenario> read_scenarios(const PlanOptions& options, const Topology& topology);

/// The settings that all searches have in common.
search::SearchOptions common_search_options(const PlanOptions& options, ProgressPrinter& printer,
                                            const InterruptWatch& watch);

/// The request for a plan by iteration time, with the warm start, which is read from its file. `printer` and
/// `watch` must outlive it.
api::PlanRequest plan_request(const PlanOptions& options, const Problem& problem,
                              const std::vector<api::NamedScenario>& scenarios, ProgressPrinter& printer,
                              const InterruptWatch& watch);

/// Calls api::plan. If no plan has the requested shape, throws an Error that names the option or the job that
/// requested it.
api::PlanResult plan_or_name_source(const PlanOptions& options, const api::PlanRequest& request);

}  // namespace dtfm::cli
