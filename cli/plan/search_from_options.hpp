// The search by iteration time that a command line asks for.
#pragma once

#include <chrono>
#include <vector>

#include "cli/common/interrupt.hpp"
#include "cli/common/progress.hpp"
#include "cli/plan/plan_options.hpp"
#include "cli/plan/simulated_search.hpp"
#include "planner/core/problem.hpp"

namespace dtfm::cli {

/// The nominal network first, then those of --scenario. Throws Error where two have one name.
std::vector<NamedScenario> read_scenarios(const PlanOptions& options, const Topology& topology);

/// What the options say of any search, which began at `begin`.
search::SearchOptions common_search_options(const PlanOptions& options,
                                            std::chrono::steady_clock::time_point begin,
                                            ProgressPrinter& printer, const InterruptWatch& watch);
search::IterationSearchOptions iteration_search_options(const PlanOptions& options, const Problem& problem,
                                                        ProgressPrinter& printer,
                                                        const InterruptWatch& watch);

/// Throws Error for shapes that cannot be, in the words of who asked for them.
SimulatedSearch search_from_options(const PlanOptions& options, const Problem& problem,
                                    const search::IterationSearchOptions& search,
                                    const std::vector<NamedScenario>& scenarios, const InterruptWatch& watch);

}  // namespace dtfm::cli
