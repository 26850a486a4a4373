// Formats the result of dtfm-compare as text and as JSON.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "planner/api/compare.hpp"

namespace dtfm::cli {

/// Returns one table per scenario, and the assumptions of each scheme.
std::string format_summary(const api::CompareRequest& request, const api::Comparison& comparison);

/// Returns a document of schema dtfm-compare/1.
nlohmann::ordered_json comparison_document(const api::CompareRequest& request,
                                           const api::Comparison& comparison);

}  // namespace dtfm::cli
