// Formats what dtfm-compare finds, as a table and as a file.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "planner/api/compare.hpp"

namespace dtfm::cli {

/// A table for each scenario, and what each row assumes.
std::string format_summary(const api::CompareRequest& request, const api::Comparison& comparison);

/// Schema dtfm-compare/1.
nlohmann::ordered_json comparison_document(const api::CompareRequest& request,
                                           const api::Comparison& comparison);

}  // namespace dtfm::cli
