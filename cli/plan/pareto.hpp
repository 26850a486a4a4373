// The Pareto front by time, price and number of devices: the file of --pareto and its summary.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/plan/plan_options.hpp"
#include "planner/io/pareto_json.hpp"
#include "planner/api/pareto.hpp"
#include "planner/search/iteration_time/pareto_search.hpp"

namespace dtfm::cli {

/// Returns the record of api::pareto_points. `finalist_results` has one entry per candidate of `search`, or
/// none; the front is then based on estimates.
io::ParetoRecord make_pareto_record(const PlanOptions& options, const search::ParetoSearch& search,
                                    const std::vector<api::FinalistResult>& finalist_results);

/// A table of a few evenly spaced points, including the first and the last; empty if there are none.
std::string format_pareto_front(const io::ParetoRecord& record, const std::string& file);

}  // namespace dtfm::cli
