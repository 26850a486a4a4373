// The search by iteration time that a command line asks for.
#pragma once

#include <chrono>
#include <vector>

#include "cli/common/interrupt.hpp"
#include "cli/common/progress.hpp"
#include "cli/plan/plan_options.hpp"
#include "planner/api/plan_request.hpp"
#include "planner/core/problem.hpp"

namespace dtfm::cli {

/// The nominal network first, then those of --scenario. Throws Error where two have one name.
std::vector<api::NamedScenario> read_scenarios(const PlanOptions& options, const Topology& topology);

/// What the options say of any search, which began at `begin`.
search::SearchOptions common_search_options(const PlanOptions& options,
                                            std::chrono::steady_clock::time_point begin,
                                            ProgressPrinter& printer, const InterruptWatch& watch);
search::IterationSearchOptions iteration_search_options(const PlanOptions& options, const Problem& problem,
                                                        ProgressPrinter& printer,
                                                        const InterruptWatch& watch);

/// Runs the search. If no plan has the requested shape, throws an Error that names the option or the job that
/// requested it.
api::PlanResult search_from_options(const PlanOptions& options, const Problem& problem,
                                    const search::IterationSearchOptions& search,
                                    const std::vector<api::NamedScenario>& scenarios);

}  // namespace dtfm::cli
