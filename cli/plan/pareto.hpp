// The front of plans by time, price and number of devices: what --pareto writes and tells.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan/plan_options.hpp"
#include "planner/api/pareto.hpp"
#include "planner/io/writers/pareto_json.hpp"
#include "planner/search/iteration_time/pareto_search.hpp"

namespace dtfm::cli {

/// Of the candidates of `search`, those that no other dominates by their simulated times; by estimates where
/// there are no `judgements`, else one for each candidate. A candidate that completed no iteration is in no
/// front of simulated ones.
io::ParetoRecord make_pareto_record(const PlanOptions& options, const search::ParetoSearch& search,
                                    const std::vector<api::FinalistResult>& finalist_results);

/// A table of some of the points, spread over all, with the first and the last; nothing where there are none.
std::string format_pareto_front(const io::ParetoRecord& record, const std::string& file);

}  // namespace dtfm::cli
