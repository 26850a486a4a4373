// Formats the result of dtfm-compare as text.
#pragma once

#include <string>

#include "planner/api/compare.hpp"

namespace dtfm::cli {

/// Returns one table per scenario, and the assumptions of each scheme.
std::string format_summary(const api::CompareRequest& request, const api::Comparison& comparison);

}  // namespace dtfm::cli
