// How a search ended: notes for the user.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/io/plan_document.hpp"
#include "planner/api/plan_request.hpp"
#include "planner/search/search_options.hpp"

namespace dtfm::cli {

/// What the user should know about the search and about the simulation of its finalists.
std::vector<std::string> search_notes(const api::PlanResult& result, const Topology& topology);

/// A note if a time limit or an interrupt ended the search. `noun`: its result, "plan".
std::vector<std::string> stop_notes(search::Stopped stopped, std::string_view noun);

/// "stopped by --time-limit after 1,234 evaluations"
std::string format_search_end(const io::PlanRecord::Search& search);

}  // namespace dtfm::cli
